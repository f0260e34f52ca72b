// A line of code that can be copied.

import { h, iconButton } from "../lib/dom.ts";
import { ascii } from "../lib/numbers.ts";

export class CodeLine {
  private readonly code = h("code");
  private readonly spoken = h("output", { class: "spoken", "aria-live": "polite" });
  private speaking = 0;
  readonly el: HTMLElement;

  constructor(label: string) {
    const copy = iconButton("copy", label, "Copy", () => this.copy());
    this.el = h("div", { class: "codeline" }, this.code, copy, this.spoken);
  }

  show(code: string): void {
    this.code.textContent = code;
    this.code.title = code;
  }

  private async copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(ascii(this.code.textContent ?? ""));
      this.speak("copied");
    } catch {
      this.speak("the browser did not allow copying");
    }
  }

  /** Speech, 400 ms after the last change. */
  private speak(text: string): void {
    clearTimeout(this.speaking);
    this.speaking = window.setTimeout(() => {
      this.spoken.textContent = text;
    }, 400);
  }
}

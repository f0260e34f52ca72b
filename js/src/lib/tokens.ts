// The tokens of the visual language, from the one file that Python reads too.

import { colors, host, maps } from "../../../slanglab/look/tokens.json";
import { type Lut, lut } from "./colormap.ts";
import type { Theme } from "./theme.ts";

/** Declarations of all tokens: the host's own on the root, ours by the measured theme. */
export function tokenSheet(): string {
  const declare = (entries: [string, string][]): string =>
    entries.map(([key, value]) => `--${key}:${value}`).join(";");
  const themed = (k: 0 | 1): [string, string][] =>
    Object.entries(colors).map(([key, pair]) => [key, pair[k] ?? ""]);
  return (
    `.sl{color-scheme:light;${declare(Object.entries(host))};${declare(themed(0))}}` +
    `.sl[data-theme=dark]{color-scheme:dark;${declare(themed(1))}}`
  );
}

const made = new Map<string, Lut>();

function map(name: keyof typeof maps): Lut {
  let table = made.get(name);
  if (!table) {
    table = lut(maps[name]);
    made.set(name, table);
  }
  return table;
}

/** Teal, for values: the same in both themes. */
export const tide = (): Lut => map("tide");

/** Blue to orange, for gradients: zero has the colour of the page. */
export const poles = (theme: Theme): Lut => map(theme === "dark" ? "poles-dark" : "poles");

/** Greys, for values that lie under the colours of their gradient: on the side of the page that leaves room for these. */
export const greys = (theme: Theme): Lut => map(theme === "dark" ? "greys-dark" : "greys");

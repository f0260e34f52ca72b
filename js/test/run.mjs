// Bundles the tests (they are TypeScript, and import JSON and CSS as the widgets do) and hands them to node's test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outdir = mkdtempSync(join(tmpdir(), "slanglab-js-"));
try {
  const names = readdirSync(here).filter((name) => name.endsWith(".test.ts"));
  await esbuild.build({
    entryPoints: names.map((name) => join(here, name)),
    outdir,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    outExtension: { ".js": ".mjs" },
    loader: { ".css": "text" },
    sourcemap: "inline",
  });
  const files = names.map((name) => join(outdir, name.replace(/\.ts$/, ".mjs")));
  const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(outdir, { recursive: true, force: true });
}

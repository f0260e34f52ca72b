// Bundles every src/*.widget.ts into one self-contained module under slanglab/static: anywidget imports the text from a
// blob: address, where relative imports do not resolve, so nothing may be split off.
import { readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const watch = process.argv.includes("--watch");
const widgets = readdirSync(join(here, "src")).filter((name) => name.endsWith(".widget.ts"));
const outdir = join(here, "..", "slanglab", "static");

/** @type {esbuild.BuildOptions} */
const options = {
  absWorkingDir: here,
  entryPoints: widgets.map((name) => ({ in: `src/${name}`, out: name.replace(".widget.ts", "") })),
  outdir,
  bundle: true,
  splitting: false,
  format: "esm",
  target: "es2022",
  minify: !watch,
  sourcemap: watch ? "inline" : false,
  loader: { ".css": "text" },
  legalComments: "none",
  logLevel: "info",
  plugins: [minifiedCss()],
};

/** Imports of .css files give their text; minified, since it travels with every widget. */
function minifiedCss() {
  return {
    name: "minified-css",
    /** @param {esbuild.PluginBuild} build */
    setup(build) {
      build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
        const result = await esbuild.build({ entryPoints: [path], minify: true, write: false });
        return { contents: result.outputFiles[0].text, loader: "text", watchFiles: [path] };
      });
    },
  };
}

if (watch) {
  await (await esbuild.context(options)).watch();
} else {
  await esbuild.build(options);
  for (const name of widgets) {
    const file = join(outdir, name.replace(".widget.ts", ".js"));
    console.log(`${file}: ${(statSync(file).size / 1e3).toFixed(1)} kB`);
  }
}

// Bundles every src/*.widget.ts into one self-contained module under slanglab/static: anywidget imports the text from a
// blob: address, where relative imports do not resolve, so nothing may be split off.
//
// A widget's text travels with every view and is saved with every model of a notebook, so it is packed: what is written is a
// small module that unpacks the real one, which a browser does in a few milliseconds. `--watch` writes it as it is.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
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

/** @param {number} bytes */
function kilobytes(bytes) {
  return `${(bytes / 1e3).toFixed(1)} kB`;
}

/**
 * A module that is what the module `text` is: it has the same default export, with `initialize` and `render` behind promises.
 * @param {Buffer} text
 */
function pack(text) {
  const data = deflateRawSync(text, { level: 9 }).toString("base64");
  return `const packed="${data}";
const unpack=async()=>{
const bytes=Uint8Array.from(atob(packed),c=>c.charCodeAt(0));
const text=await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).blob();
const url=URL.createObjectURL(new Blob([text],{type:"text/javascript"}));
try{return (await import(/* webpackIgnore: true */url)).default}finally{URL.revokeObjectURL(url)}};
let widget;
export default{
async initialize(host){return (await(widget??=unpack())).initialize?.(host)},
async render(host){return (await(widget??=unpack())).render(host)}};
`;
}

if (watch) {
  await (await esbuild.context(options)).watch();
} else {
  await esbuild.build(options);
  for (const name of widgets) {
    const file = join(outdir, name.replace(".widget.ts", ".js"));
    const text = readFileSync(file);
    const packed = pack(text);
    writeFileSync(file, packed);
    console.log(`${file}: ${kilobytes(packed.length)} (${kilobytes(text.length)} unpacked)`);
  }
}

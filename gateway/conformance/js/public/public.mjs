// Runs the test files of @azure/cosmos against a gateway, each in a process of its own, and
// prints a line of JSON for each: its name, how many of its tests pass, and the titles of those
// that fail. The tests belong to the SDK: they are read where they lie.
//
//	node public.mjs DIRECTORY FILE...
//
// Imports that leave the directory are those of the sources of the SDK: they become those of the
// package. From test/public, those of test/internal beside it stay. Files that import vitest are
// run by vitest, others by mocha.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";

const directory = resolve(process.argv[2]);
const tree = basename(directory) === "public" ? dirname(directory) : directory;
const files = process.argv.slice(3);
const root = resolve("node_modules/@azure/cosmos/dist/esm");
const out = resolve("built");

// specifier returns what an import of a file becomes.
function specifier(file, name) {
  if (!/^\.\.?(\/|$)/.test(name)) return name;
  const at = resolve(dirname(file), name).replace(/\.(js|ts)$/, "");
  if (!relative(tree, at).startsWith("..")) {
    if (at.endsWith(".json")) return pathToFileURL(at).href;
    const found = existsSync(at + ".ts") ? at : join(at, "index");
    return pathToFileURL(join(out, relative(tree, found) + ".mjs")).href;
  }
  const inside = at.replace(/^.*\/(src|dist-esm)(?=\/|$)/, "");
  const found = [root + inside + ".js", join(root + inside, "index.js")].find((path) => existsSync(path));
  return pathToFileURL(found || root + inside + " is not in the package").href;
}

function compile(file) {
  const { outputText } = ts.transpileModule(readFileSync(file, "utf8"), {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, esModuleInterop: true, resolveJsonModule: true },
  });
  const text = outputText.replace(/^((?:import|export)\b[^;]*?\bfrom\s*|import\s*)(["'])([^"']+)\2/gm, (_, head, quote, name) => head + quote + specifier(file, name) + quote);
  const to = join(out, relative(tree, file).replace(/\.ts$/, ".mjs"));
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);\n' + text);
  return [to, text];
}

function run(program, args) {
  return new Promise((done) => {
    const options = { maxBuffer: 64 << 20, timeout: 180_000, killSignal: "SIGKILL" };
    execFile(process.execPath, [program, ...args], options, (err, stdout, stderr) => done({ err, stderr }));
  });
}

const built = new Map();
for (const entry of readdirSync(tree, { recursive: true })) {
  const file = join(tree, entry);
  if (file.endsWith(".ts") && !file.endsWith(".d.ts")) built.set(file, compile(file));
}
for (const name of files) {
  const report = { file: name, passed: 0, failed: [], error: "" };
  let done;
  try {
    const [spec, text] = built.get(join(directory, name));
    const results = spec + ".json";
    rmSync(results, { force: true });
    if (/from "vitest"/.test(text)) {
      done = await run("node_modules/vitest/vitest.mjs", ["run", "--testTimeout=30000", "--hookTimeout=30000", "--reporter=json", "--outputFile=" + results, spec]);
      for (const t of JSON.parse(readFileSync(results, "utf8")).testResults.flatMap((f) => f.assertionResults)) {
        if (t.status === "passed") report.passed++;
        if (t.status === "failed") report.failed.push(t.fullName + ": " + (t.failureMessages[0] || "").slice(0, 300));
      }
    } else {
      done = await run("node_modules/mocha/bin/mocha.js", ["--exit", "--timeout", "30000", "--reporter", "json", "--reporter-option", "output=" + results, spec]);
      const { stats, failures } = JSON.parse(readFileSync(results, "utf8"));
      report.passed = stats.passes;
      report.failed = failures.map((f) => f.fullTitle + ": " + String(f.err.message).slice(0, 300));
    }
  } catch (err) {
    report.error = (String(err.message || err) + " " + (done ? done.stderr : "")).slice(0, 600);
  }
  if (done?.err?.killed) report.error = "it has not ended after three minutes";
  console.log(JSON.stringify(report));
}

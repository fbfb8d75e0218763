// The shipped file through llama.cpp, by way of `node-llama-cpp`.
//
//   node llama.mjs golden model.gguf model.golden.json      adds llama.cpp's tokens and greedy answers, reports differences
//   node llama.mjs answer model.gguf eval.jsonl out.jsonl   greedy answers for evaluation.py score
//
// `npm install node-llama-cpp` in any folder, and run from there.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.cwd()}/`);
const library = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const [command, modelPath, input, output] = process.argv.slice(2);
const llama = await library.getLlama({ gpu: false, build: "never" });
const model = await llama.loadModel({ modelPath });
// One thread: a model this small gains nothing from more.
const context = await model.createContext({ contextSize: command === "golden" ? 1024 : 4096, threads: 1 });
const sequence = context.getSequence();
const end = model.tokens.eos;

async function greedy(ids, limit) {
  await sequence.clearHistory();
  const answer = [];
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    answer.push(token);
    if (token === end || answer.length === limit) break;
  }
  return answer;
}

if (command === "golden") {
  const golden = JSON.parse(readFileSync(input, "utf8"));
  const different = (a, b) => JSON.stringify(a) !== JSON.stringify(b);
  golden.madeBy["node-llama-cpp"] = await library.getModuleVersion();
  golden.madeBy["llama.cpp"] = llama.llamaCppRelease.release;
  for (const entry of [...golden.tokens, ...golden.completions]) {
    const [text, ids] = "prompt" in entry ? [entry.prompt, entry.promptIds] : [entry.text, entry.ids];
    if (different(model.tokenize(text, true), ids)) console.log("tokens differ:", JSON.stringify(text));
  }
  for (const entry of golden.completions) {
    entry.llamaCppIds = await greedy(entry.promptIds, 96);
    const at = entry.llamaCppIds.findIndex((id, i) => id !== entry.greedyIds[i]);
    console.log(at < 0 ? "same   " : `differs at ${at}, where the lead was ${entry.leads[at]}:`, entry.name);
  }
  // One entry per line keeps the file small and its diffs readable.
  const rows = (list) => `[\n${list.map((entry) => JSON.stringify(entry)).join(",\n")}\n]`;
  const parts = Object.entries(golden).map(([key, value]) => `${JSON.stringify(key)}: ${Array.isArray(value) ? rows(value) : JSON.stringify(value)}`);
  writeFileSync(input, `{\n${parts.join(",\n")}\n}\n`);
} else {
  const lines = readFileSync(input, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const answers = [];
  for (const { id, prompt } of lines) {
    const ids = await greedy(model.tokenize(prompt, true), 512);
    const ended = ids.at(-1) === end;
    const text = model.detokenize(ended ? ids.slice(0, -1) : ids, true);
    answers.push(`${JSON.stringify({ id, text, finish_reason: ended ? "stop" : "length" })}\n`);
  }
  writeFileSync(output, answers.join(""));
}
await llama.dispose();

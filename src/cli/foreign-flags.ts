// What to give instead of options that other servers have and this one has not: llama.cpp's, vLLM's, Ollama's.

/** Flags of several letters after one dash, which the parser would take for several flags. */
const spelledOut: Readonly<Record<string, string>> = {
  '-hf': '--hf-repo',
  '-hfr': '--hf-repo',
  '-np': '--parallel',
  '-ngl': '--n-gpu-layers',
  '-fa': '--flash-attn',
  '-tp': '--tensor-parallel-size',
  '-cb': '--cont-batching',
};

export function withLongFlags(words: readonly string[]): string[] {
  return words.map((word) => (Object.hasOwn(spelledOut, word) ? (spelledOut[word] as string) : word));
}

const alwaysOn = 'it is always on';
const oneBackend =
  'every layer is computed in one place; --backend cpu leaves the GPU alone, --gpu-memory limits its memory';
const asInFile = 'weights are computed as their file has them; choose another file';

const hints: Readonly<Record<string, string>> = {
  '--n-gpu-layers': oneBackend,
  '--gpu-layers': oneBackend,
  '--gpu-memory-utilization': 'give --gpu-memory, such as --gpu-memory 20GiB',
  '--tensor-parallel-size':
    'a model is computed by one GPU; several machines make a fleet, see docs/fleet.md',
  '--api-key': "keys are made with 'chairlift keys create --name NAME'",
  '--dtype': asInFile,
  '--quantization': asInFile,
  '--served-model-name': 'give --model NAME=PATH',
  '--lora': 'give --adapter MODEL:NAME=PATH',
  '--enable-lora': 'give --adapter MODEL:NAME=PATH',
  '--temp': 'give --sampling-defaults temperature=0.7, or --temperature to run, chat and generate',
  '--hf-token': 'give it as HF_TOKEN in the environment',
  '--verbose': 'give --log-level debug',
  '--flash-attn': alwaysOn,
  '--cont-batching': alwaysOn,
  '--jinja': alwaysOn,
  '--metrics': alwaysOn,
  '--slots': alwaysOn,
  '--embeddings': alwaysOn,
  '--embedding': alwaysOn,
  '--enable-prefix-caching': alwaysOn,
  '--enable-auto-tool-choice': alwaysOn,
  '--tool-call-parser': 'the format follows from the model; --tool-format overrides it',
  '--reasoning-parser': 'the format follows from the model',
  '--mlock': 'weights are always in memory',
  '--no-mmap': 'weights are always loaded into memory',
  '--trust-remote-code': 'no code of a model is ever run',
};

/** Added to what the parser says. */
export function hintFor(message: string): string {
  const flag = /unknown option '(--?[\w-]+)/.exec(message)?.[1] ?? '';
  return Object.hasOwn(hints, flag) ? `${flag}: ${hints[flag]}\n` : '';
}

// What to give instead of options and commands that other programs have and this one has not: llama.cpp's, vLLM's, Ollama's.

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

const alwaysOn = 'it is always on; leave the option out';
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
  '--served-model-name': 'give the model as NAME=PATH, such as small=model.gguf',
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
  '--mlock': 'weights are always in memory; leave the option out',
  '--no-mmap': 'weights are always loaded into memory; leave the option out',
  '--trust-remote-code': 'no code of a model is ever run; leave the option out',
};

const noRegistry = 'models come from the Hugging Face hub, and go there with its own tools';
const noAccount = 'there is no account; a token for gated models is given as HF_TOKEN in the environment';
const runOrServe = "give a command first: 'chairlift run -m model.gguf', 'chairlift serve -m model.gguf'";

const commandHints: Readonly<Record<string, string>> = {
  create:
    "serve a model as it is by another name ('chairlift serve NAME=PATH'), or with settings of its own; /api/create of a running server reads a Modelfile",
  cp: "a model has another name with 'chairlift serve NAME=PATH'",
  push: noRegistry,
  launch: "start 'chairlift serve', and give the program its address",
  signin: noAccount,
  signout: noAccount,
  login: noAccount,
  cli: "'chairlift run' chats with a model",
  complete: "'chairlift generate' continues a text",
  completions: "'chairlift generate' continues a text; 'chairlift completion' is for a shell",
  embed: "start 'chairlift serve', and ask /v1/embeddings",
  embedding: "start 'chairlift serve', and ask /v1/embeddings",
  perplexity: "'chairlift logits' shows log-probabilities",
  quantize: 'quantized files are read as they are; llama.cpp makes them',
  'run-batch': "'chairlift batch' answers a file of requests",
  'collect-env': "'chairlift doctor' shows what this machine has",
  update: "'npm install chairlift@latest' brings the latest version",
};

const offlineOrServe =
  "give a command first: 'chairlift bench offline -m model.gguf' without a server, 'chairlift bench serve' with one";

/** Of the program itself, where no command was given. */
const startingFlags = ['-m', '--model', '-hf', '--hf-repo', '-p', '--prompt', '-c', '--port', '--host'];

/** What `withHint` must know of the command line. */
export interface Typed {
  readonly hasCommand: boolean;
  /** `bench`, which has commands of its own, without one of them. */
  readonly isBareBench: boolean;
}

export function typedIn([first = '', second = '']: readonly string[]): Typed {
  const isBench = first === 'bench' || first === 'benchmark';
  return {
    hasCommand: first !== '' && !first.startsWith('-'),
    isBareBench: isBench && !['offline', 'serve'].includes(second),
  };
}

/** What the parser says, with what to give instead; a suggestion of something alike has no place beside that. */
export function withHint(message: string, typed: Typed): string {
  const [, kind, word] = /unknown (option|command) '([^']+)'/.exec(message) ?? [];
  const hint = word === undefined ? undefined : hintOn(kind === 'command', word, typed);
  if (hint === undefined) return message;
  return `${message.replace(/\n?\(Did you mean .*\?\)/, '')}${word}: ${hint}\n`;
}

function hintOn(isCommand: boolean, word: string, { hasCommand, isBareBench }: Typed): string | undefined {
  if (isBareBench) return offlineOrServe;
  if (!isCommand && !hasCommand && startingFlags.includes(word)) return runOrServe;
  const known = isCommand ? commandHints : hints;
  return Object.hasOwn(known, word) ? known[word] : undefined;
}

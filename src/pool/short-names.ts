// Short names such as llama3.2:1b, as Ollama's users write them, for repositories of the hub. The settings may add to the table
// and replace what it has.

/** By a name in lower case: a reference to the hub. */
export type ShortNames = ReadonlyMap<string, string>;

const llama32 = (size: string) => `bartowski/Llama-3.2-${size}-Instruct-GGUF:Q4_K_M`;
const qwen25 = (size: string) => `bartowski/Qwen2.5-${size}-Instruct-GGUF:Q4_K_M`;
const qwen25Coder = (size: string) => `bartowski/Qwen2.5-Coder-${size}-Instruct-GGUF:Q4_K_M`;
const qwen3 = (size: string, quantization = 'Q4_K_M') => `Qwen/Qwen3-${size}-GGUF:${quantization}`;
const gemma2 = (size: string) => `bartowski/gemma-2-${size}-it-GGUF:Q4_K_M`;
const gemma3 = (size: string) => `ggml-org/gemma-3-${size}-it-GGUF:Q4_K_M`;
const smollm2 = (size: string) => `bartowski/SmolLM2-${size}-Instruct-GGUF:Q4_K_M`;
const deepseekR1 = (base: string) => `bartowski/DeepSeek-R1-Distill-${base}-GGUF:Q4_K_M`;

/** Public repositories that need no access token. A name without a size is what Ollama gives for it. */
export const wellKnownNames: ShortNames = new Map(
  Object.entries({
    'llama3.1': 'bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M',
    'llama3.1:8b': 'bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M',
    'llama3.2': llama32('3B'),
    'llama3.2:1b': llama32('1B'),
    'llama3.2:3b': llama32('3B'),
    'llama3.3': 'bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M',
    'llama3.3:70b': 'bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M',
    'qwen2.5': qwen25('7B'),
    'qwen2.5:0.5b': qwen25('0.5B'),
    'qwen2.5:1.5b': qwen25('1.5B'),
    'qwen2.5:3b': qwen25('3B'),
    'qwen2.5:7b': qwen25('7B'),
    'qwen2.5:14b': qwen25('14B'),
    'qwen2.5:32b': qwen25('32B'),
    'qwen2.5-coder': qwen25Coder('7B'),
    'qwen2.5-coder:7b': qwen25Coder('7B'),
    'qwen2.5-coder:14b': qwen25Coder('14B'),
    'qwen2.5-coder:32b': qwen25Coder('32B'),
    qwen3: qwen3('8B'),
    'qwen3:0.6b': qwen3('0.6B', 'Q8_0'),
    'qwen3:1.7b': qwen3('1.7B', 'Q8_0'),
    'qwen3:4b': qwen3('4B'),
    'qwen3:8b': qwen3('8B'),
    'qwen3:14b': qwen3('14B'),
    'qwen3:32b': qwen3('32B'),
    'qwen3:30b': qwen3('30B-A3B'),
    'qwen3:30b-a3b': qwen3('30B-A3B'),
    gemma2: gemma2('9b'),
    'gemma2:2b': gemma2('2b'),
    'gemma2:9b': gemma2('9b'),
    gemma3: gemma3('4b'),
    'gemma3:1b': gemma3('1b'),
    'gemma3:4b': gemma3('4b'),
    'gemma3:12b': gemma3('12b'),
    'gemma3:27b': gemma3('27b'),
    mistral: 'bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M',
    'mistral:7b': 'bartowski/Mistral-7B-Instruct-v0.3-GGUF:Q4_K_M',
    'phi3.5': 'bartowski/Phi-3.5-mini-instruct-GGUF:Q4_K_M',
    smollm2: smollm2('1.7B'),
    'smollm2:135m': smollm2('135M'),
    'smollm2:360m': smollm2('360M'),
    'smollm2:1.7b': smollm2('1.7B'),
    'deepseek-r1:1.5b': deepseekR1('Qwen-1.5B'),
    'deepseek-r1:7b': deepseekR1('Qwen-7B'),
    'deepseek-r1:32b': deepseekR1('Qwen-32B'),
    'deepseek-r1:70b': deepseekR1('Llama-70B'),
    'gpt-oss': 'ggml-org/gpt-oss-20b-GGUF',
    'gpt-oss:20b': 'ggml-org/gpt-oss-20b-GGUF',
    'gpt-oss:120b': 'ggml-org/gpt-oss-120b-GGUF',
    'nomic-embed-text': 'nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0',
  }),
);

/** `name=reference` each; throws with the one that cannot be read. */
export function withShortNames(given: readonly string[]): ShortNames {
  if (given.length === 0) return wellKnownNames;
  const added = given.map((text): [string, string] => {
    const [, name, reference] = /^([^=/\s]+)=(\S+)$/.exec(text) ?? [];
    if (name !== undefined && reference !== undefined) return [name.toLowerCase(), reference];
    throw new Error(`give name=owner/repo or name=owner/repo:file, not ${text}`);
  });
  return new Map([...wellKnownNames, ...added]);
}

// Pre-tokenizers of byte-level BPE models, by the names in GGUF files (`tokenizer.ggml.pre`). Each rule is the
// model's own regular expressions in their original dialect, applied in turn; matches and gaps become pieces.

import { fromOniguruma } from './oniguruma/oniguruma.ts';
import { splitBy, splitInTurn, splitThousands, type TextSplitter } from './text-splitter.ts';

/** The letters that DeepSeek's first tokenizer counts as words: code points and runs of them. */
const casedRuns = `
  41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376-377 37b-37d 37f 386 388-38a
  38c 38e-3a1 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf
  1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d
  1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4
  1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139 213c-213f
  2145-2149 214e 2183-2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2-2cf3 a640-a66d a680-a69b a722-a76f
  a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3
  104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943
`;

/** As the inside of a character class. */
const casedLetters = casedRuns.replace(/[0-9a-f]+/g, '\\x{$&}').replace(/\s+/g, '');

export interface PreTokenizer {
  readonly family: string;
  readonly split: TextSplitter;
  /** A piece that is a token becomes it without merging. */
  readonly ignoreMerges: boolean;
  /** The default where the file does not say. */
  readonly addBos: boolean;
}

interface Family {
  readonly names: readonly string[];
  readonly patterns: readonly (string | TextSplitter)[];
  readonly ignoreMerges?: true;
  readonly addBos?: true;
}

const raw = String.raw;
const contraction = raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
const whitespaceTail = raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const gpt2 = raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const gpt4 = (digits: string): string =>
  raw`${contraction}|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|${whitespaceTail}`;

/** Words also break between lower and upper case. `within` narrows their letters; `ends` may follow symbols. */
const cased = (suffix: string, digits: string, within = '', ends = raw`[\r\n/]*`): string => {
  const upper = raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}${within}]`;
  const lower = raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}${within}]`;
  const word = raw`[^\r\n\p{L}\p{N}]?${upper}*${lower}+${suffix}|[^\r\n\p{L}\p{N}]?${upper}+${lower}*${suffix}`;
  return raw`${word}|${digits}| ?[^\s\p{L}\p{N}]+${ends}|${whitespaceTail}`;
};
const gpt4o = cased(`${contraction}?`, raw`\p{N}{1,3}`);
const kimi = cased(`${contraction}?`, raw`\p{N}{1,3}`, raw`&&[^\p{Han}]`, raw`[\r\n]*`);

const chinese = raw`[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+`;
const eastAsian = raw`[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+`;
const symbolThenWord = raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+`;
const deepseek3 = raw`${symbolThenWord}|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|${whitespaceTail}`;
const bloom = raw` ?[^(\s|.,!?…。，、।۔،)]+`;

const families: Readonly<Record<string, Family>> = {
  default: {
    names: ['default'],
    patterns: [raw`[\p{P}$+<=>\^~|]+`, gpt2, raw`\p{N}+`, '[0-9][0-9][0-9]'],
  },
  'llama-bpe': {
    names: [
      'llama-bpe',
      'llama3',
      'llama-v3',
      'falcon3',
      'falcon-h1',
      'pixtral',
      'midm-2.0',
      'lfm2',
      'jina-v5-nano',
    ],
    patterns: [gpt4(raw`\p{N}{1,3}`)],
    ignoreMerges: true,
    addBos: true,
  },
  dbrx: { names: ['dbrx', 'smaug-bpe', 'glm4', 'glm5', 'chatglm-bpe'], patterns: [gpt4(raw`\p{N}{1,3}`)] },
  qwen2: {
    names: [
      'qwen2',
      'deepseek-r1-qwen',
      'megrez',
      'stablelm2',
      'hunyuan',
      'solar-open',
      'grok-2',
      'kormo',
      'f2llmv2',
    ],
    patterns: [gpt4(raw`\p{N}`)],
  },
  qwen35: {
    names: ['qwen35'],
    patterns: [
      raw`${contraction}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${whitespaceTail}`,
    ],
  },
  'gpt-2': {
    names: [
      'gpt-2',
      'phi-2',
      'mpt',
      'olmo',
      'jais',
      'trillion',
      'granite-docling',
      'exaone4',
      'gigachat',
      'mellum',
      'a.x-4.0',
      'jina-es',
      'jina-de',
      'jina-v2-es',
      'jina-v2-de',
      'jina-v1-en',
      'jina-v2-code',
      'roberta-bpe',
      'modern-bert',
    ],
    patterns: [gpt2],
  },
  smollm: {
    names: ['smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b', 'mellum2'],
    patterns: [raw`\p{N}`, gpt2],
  },
  falcon: {
    names: ['falcon'],
    patterns: [raw`[\p{P}$+<=>\^~|${'`'}]+`, gpt2, '[0-9][0-9][0-9]'],
  },
  'deepseek-llm': {
    names: ['deepseek-llm'],
    patterns: [
      raw`[\r\n]`,
      raw`\s?[${casedLetters}]+`,
      raw`\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+`,
      raw`\s+$`,
      chinese,
      raw`\p{N}+`,
    ],
  },
  'deepseek-coder': {
    names: ['deepseek-coder'],
    patterns: [raw`[\r\n]`, raw`\s?\p{L}+`, raw`\s?\p{P}+`, chinese, raw`\p{N}`],
  },
  'deepseek-v3': {
    names: ['deepseek-v3', 'hunyuan-dense', 'hy_v4', 'joyai-llm'],
    patterns: [raw`\p{N}{1,3}`, eastAsian, deepseek3],
  },
  tekken: { names: ['tekken'], patterns: [cased('', raw`\p{N}`)], ignoreMerges: true, addBos: true },
  'gpt-4o': {
    names: ['gpt-4o', 'llama4', 'kanana2', 'minimax-m2', 'talkie'],
    patterns: [gpt4o],
  },
  'kimi-k2': { names: ['kimi-k2'], patterns: [raw`[\p{Han}]+|${kimi}`] },
  tiny_aya: { names: ['tiny_aya', 'cohere2moe'], patterns: [splitThousands, gpt4o] },
  minicpm5: {
    names: ['minicpm5'],
    patterns: [raw`\p{N}{1,3}`, gpt4(raw`\p{N}+`)],
    ignoreMerges: true,
  },
  'exaone-moe': {
    names: ['exaone-moe'],
    patterns: [
      raw`${contraction}|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`,
    ],
  },
  'seed-coder': {
    names: ['seed-coder'],
    patterns: [raw`${contraction}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|${whitespaceTail}`],
  },
  bailingmoe: {
    names: ['bailingmoe', 'bailingmoe2', 'llada-moe'],
    patterns: [
      raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
    ],
  },
  bloom: { names: ['bloom', 'poro-chat', 'gpt3-finnish'], patterns: [bloom] },
  viking: { names: ['viking'], patterns: [bloom, raw`\p{N}`] },
};

export const preTokenizerNames: readonly string[] = Object.values(families).flatMap((family) => family.names);

/** Undefined for an unknown name. */
export function namedPreTokenizer(name: string): PreTokenizer | undefined {
  const found = Object.entries(families).find(([, family]) => family.names.includes(name));
  if (found === undefined) return undefined;
  const [familyName, family] = found;
  return {
    family: familyName,
    split: splitInTurn(family.patterns.map(splitterOf)),
    ignoreMerges: family.ignoreMerges ?? false,
    addBos: family.addBos ?? false,
  };
}

function splitterOf(pattern: string | TextSplitter): TextSplitter {
  return typeof pattern === 'string' ? splitBy(fromOniguruma(pattern), 'Isolated') : pattern;
}

/** GPT-2's expression, the default of tokenizer files. */
export const gpt2Pattern: string = gpt2;

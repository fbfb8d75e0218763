// Fill-in-the-middle tokens of code models. GGUF files declare them; folders and older files are recognized by their
// spelling.

import type { Tokenizer } from './tokenizer.ts';

export interface FillInMiddle {
  readonly prefix: number;
  readonly suffix: number;
  /** Where the answer begins. Absent where the suffix comes first: then the answer follows the prefix. */
  readonly middle: number | undefined;
  readonly repository: number | undefined;
  readonly file: number | undefined;
  /** An answer ends where it goes on to another file or gap. */
  readonly endIds: readonly number[];
}

type Part = 'prefix' | 'suffix' | 'middle' | 'repository' | 'file' | 'padding';

const spellings: readonly Readonly<Partial<Record<Part, string>>>[] = [
  {
    prefix: '<|fim_prefix|>',
    suffix: '<|fim_suffix|>',
    middle: '<|fim_middle|>',
    repository: '<|repo_name|>',
    file: '<|file_sep|>',
    padding: '<|fim_pad|>',
  },
  {
    prefix: '<fim_prefix>',
    suffix: '<fim_suffix>',
    middle: '<fim_middle>',
    repository: '<repo_name>',
    file: '<file_sep>',
    padding: '<fim_pad>',
  },
  { prefix: '<fim-prefix>', suffix: '<fim-suffix>', middle: '<fim-middle>', padding: '<fim-pad>' },
  { prefix: '<｜fim▁begin｜>', suffix: '<｜fim▁hole｜>', middle: '<｜fim▁end｜>' },
  { prefix: '<|code_prefix|>', suffix: '<|code_suffix|>', middle: '<|code_middle|>' },
  { prefix: '▁<PRE>', suffix: '▁<SUF>', middle: '▁<MID>', padding: '▁<EOT>' },
  { prefix: '<PRE>', suffix: '<SUF>', middle: '<MID>', padding: '<EOT>' },
  // Trained with the suffix first.
  { prefix: '[PREFIX]', suffix: '[SUFFIX]' },
];

/** Newer key, older key; both after `tokenizer.ggml.`. */
const keys: Readonly<Record<Part, readonly string[]>> = {
  prefix: ['fim_pre_token_id', 'prefix_token_id'],
  suffix: ['fim_suf_token_id', 'suffix_token_id'],
  middle: ['fim_mid_token_id', 'middle_token_id'],
  repository: ['fim_rep_token_id'],
  file: ['fim_sep_token_id'],
  padding: ['fim_pad_token_id'],
};

export function fillInMiddleOf(
  tokenizer: Pick<Tokenizer, 'vocabSize' | 'tokenText'>,
  declared: (key: string) => unknown = () => undefined,
): FillInMiddle | undefined {
  const spelled = spelledIds(tokenizer);
  const idOf = (part: Part): number | undefined => {
    const ids = keys[part].map((key) => declared(`tokenizer.ggml.${key}`));
    return ids.find((id) => typeof id === 'number' && id >= 0 && id < tokenizer.vocabSize) as
      | number
      | undefined;
  };
  const declaredParts = Object.keys(keys).map((part) => [part, idOf(part as Part)] as const);
  const given = new Map(declaredParts.filter(([, id]) => id !== undefined) as [Part, number][]);
  const ids = given.has('prefix') && given.has('suffix') ? new Map([...spelled, ...given]) : spelled;
  const [prefix, suffix] = [ids.get('prefix'), ids.get('suffix')];
  if (prefix === undefined || suffix === undefined) return undefined;
  return {
    prefix,
    suffix,
    middle: ids.get('middle'),
    repository: ids.get('repository'),
    file: ids.get('file'),
    endIds: [...ids.values()],
  };
}

function spelledIds({ vocabSize, tokenText }: Pick<Tokenizer, 'vocabSize' | 'tokenText'>): Map<Part, number> {
  const names = new Set(spellings.flatMap((family) => Object.values(family)));
  const idOf = new Map<string, number>();
  for (let id = 0; id < vocabSize; id++) {
    const text = tokenText(id);
    if (text !== undefined && names.has(text)) idOf.set(text, id);
  }
  const isThere = (name: string | undefined) => name === undefined || idOf.has(name);
  const family = spellings.find((one) => [one.prefix, one.suffix, one.middle].every(isThere)) ?? {};
  const parts = Object.entries(family).map(([part, name]) => [part, idOf.get(name)] as const);
  return new Map(parts.filter(([, id]) => id !== undefined) as [Part, number][]);
}

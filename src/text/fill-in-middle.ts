// The tokens by which models of code are told what stands before and behind a gap. GGUF files declare them; in folders, and
// in older files, they are known by how they are spelled.

import type { Tokenizer } from './tokenizer.ts';

export interface FillInMiddle {
  readonly prefix: number;
  readonly suffix: number;
  /** Where the answer begins. Absent where the suffix comes first: then it begins behind the prefix. */
  readonly middle: number | undefined;
  /** Before the name of a project. */
  readonly repository: number | undefined;
  /** Before each file of it. */
  readonly file: number | undefined;
  /** An answer is over where it goes on to another file, or to another gap. */
  readonly endIds: readonly number[];
}

type Part = 'prefix' | 'suffix' | 'middle' | 'repository' | 'file' | 'padding';

/** One family a line; `repository` and the rest may be missing. */
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

/** Newer key, older key; both behind `tokenizer.ggml.`. */
const keys: Readonly<Record<Part, readonly string[]>> = {
  prefix: ['fim_pre_token_id', 'prefix_token_id'],
  suffix: ['fim_suf_token_id', 'suffix_token_id'],
  middle: ['fim_mid_token_id', 'middle_token_id'],
  repository: ['fim_rep_token_id'],
  file: ['fim_sep_token_id'],
  padding: ['fim_pad_token_id'],
};

/** `declared` gives the value of a key of a GGUF. */
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

/** Of the first family whose tokens are there. */
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

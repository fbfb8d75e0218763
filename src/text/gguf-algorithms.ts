// The algorithms of tokenizers by the names that GGUF files give them, each made of the vocabulary of a file.

import type { MetadataReader } from '../weights/gguf-metadata.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import {
  bpeEncoder,
  encodePieces,
  fromByteCharacters,
  MergeOutsideVocabulary,
  type PieceEncoder,
  type SymbolRule,
  spellsEveryByte,
  spellsEveryByteToken,
} from './bpe.ts';
import { namedPreTokenizer, type PreTokenizer, preTokenizerNames } from './pre-tokenizers.ts';
import { charsmapNormalizer } from './precompiled-charsmap.ts';
import { escapedSpace, spmEncoder } from './spm.ts';
import { LONG_TEXT } from './text-splitter.ts';
import type { TokenizerParts } from './tokenizer.ts';
import { unigramEncoder } from './unigram.ts';
import { bertFolder, bertWords, wordPieceEncoder } from './wordpiece.ts';

export const tokenTypes = { unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

export interface GgufVocabulary {
  readonly reader: MetadataReader;
  readonly tokens: readonly string[];
  readonly ids: ReadonlyMap<string, number>;
  /** By id. */
  readonly types: ArrayLike<number>;
}

type AlgorithmParts = Pick<
  TokenizerParts,
  'kind' | 'encodeText' | 'bytesOf' | 'stripsLeadingSpace' | 'shrinkage'
> & {
  readonly addBos: boolean;
  /** Default false. */
  readonly addEos?: boolean;
  readonly defaultIds: { readonly bos?: number | undefined; readonly eos?: number | undefined };
};

export const algorithms: Readonly<
  Record<string, (vocabulary: GgufVocabulary, path: string) => AlgorithmParts>
> = {
  gpt2: byteLevelParts,
  llama: spmParts,
  gemma4: mergedSpmParts,
  bert: wordPieceParts,
  t5: unigramParts,
};

/** Converters write 2^32 - 1 for "none". */
export function tokenId({ reader, tokens }: GgufVocabulary, key: string): number | undefined {
  const id = reader.optionalNumber(key);
  if (id === undefined || id === 0xffffffff || id === -1) return undefined;
  if (id in tokens) return id;
  throw reader.fault(key, `is ${id}, but the vocabulary has ${tokens.length} tokens`);
}

function byteLevelParts(vocabulary: GgufVocabulary, path: string): AlgorithmParts {
  const { reader, tokens, types, ids } = vocabulary;
  const name = reader.optionalString('tokenizer.ggml.pre') ?? 'default';
  const preTokenizer = namedPreTokenizer(name);
  if (preTokenizer === undefined) throw unknownPreTokenizer(path, name);
  const encodePiece = byteLevelEncoder(vocabulary, preTokenizer);
  return {
    kind: `byte-level BPE, ${name} pre-tokenizer, ${tokens.length.toLocaleString('en')} tokens`,
    stripsLeadingSpace: false,
    shrinkage: spellsEveryByte(ids) ? 1 : Number.POSITIVE_INFINITY,
    addBos: preTokenizer.addBos,
    defaultIds: {},
    encodeText: ({ text }, _special, into) => encodePieces(preTokenizer.split(text), encodePiece, into),
    bytesOf(id, token) {
      const plain = types[id] === tokenTypes.control || types[id] === tokenTypes.userDefined;
      return (plain ? undefined : fromByteCharacters(token)) ?? Buffer.from(token);
    },
  };
}

function byteLevelEncoder(vocabulary: GgufVocabulary, { ignoreMerges }: PreTokenizer): PieceEncoder {
  return mergingEncoder(vocabulary, ignoreMerges, { kind: 'bytes', unknownId: undefined });
}

function mergingEncoder(
  { reader, ids }: GgufVocabulary,
  ignoreMerges: boolean,
  symbols: SymbolRule,
): PieceEncoder {
  const key = 'tokenizer.ggml.merges';
  const merges = reader.strings(key).map((merge): readonly [string, string] => {
    // A token may itself begin with a space.
    const space = merge.indexOf(' ', 1);
    return [merge.slice(0, space), merge.slice(space + 1)];
  });
  try {
    return bpeEncoder({ ids, merges, ignoreMerges, symbols });
  } catch (error) {
    throw error instanceof MergeOutsideVocabulary ? reader.fault(key, error.message) : error;
  }
}

function scoresOf({ reader, tokens }: GgufVocabulary): ArrayLike<number> {
  const scores = reader.numbers('tokenizer.ggml.scores');
  if (scores.length === tokens.length) return scores;
  throw reader.fault('tokenizer.ggml.scores', `has ${scores.length} entries for ${tokens.length} tokens`);
}

/** Words, each with its space in front, whatever space there is between them. */
function unigramParts(vocabulary: GgufVocabulary): AlgorithmParts {
  const { reader, tokens, types, ids } = vocabulary;
  const unknownId = tokenId(vocabulary, 'tokenizer.ggml.unknown_token_id') ?? 2;
  const key = 'tokenizer.ggml.precompiled_charsmap';
  const map = reader.optionalNumbers(key);
  const normalize = map === undefined ? (text: string) => text : charsmapNormalizer(Uint8Array.from(map));
  if (normalize === undefined) throw reader.fault(key, 'is no map of characters');
  const hasBytes = types.length > 0 && Array.from(types).includes(tokenTypes.byte);
  const encodeWord = unigramEncoder({
    ids: mergeableIds(vocabulary),
    scores: scoresOf(vocabulary),
    unknownId,
    byteIds: hasBytes ? ids : undefined,
  });
  return {
    kind: `Unigram, ${tokens.length.toLocaleString('en')} tokens`,
    stripsLeadingSpace: true,
    shrinkage: Number.POSITIVE_INFINITY,
    addBos: false,
    addEos: true,
    defaultIds: { eos: 1 },
    encodeText({ text }, _special, into) {
      const words = normalize(text)
        .split(/\p{White_Space}+/u)
        .filter((word) => word !== '');
      return encodePieces(
        words.map((word) => escapedSpace + word),
        encodeWord,
        into,
      );
    },
    bytesOf: (id, token) => spmBytes(types[id], token),
  };
}

function spmParts(vocabulary: GgufVocabulary): AlgorithmParts {
  const { reader, tokens, types, ids } = vocabulary;
  const scores = scoresOf(vocabulary);
  const addSpacePrefix = reader.optionalBoolean('tokenizer.ggml.add_space_prefix') ?? true;
  const unknownId = tokenId(vocabulary, 'tokenizer.ggml.unknown_token_id') ?? 0;
  const encodePiece = spmEncoder({ tokens, scores, ids, unknownId, mergeable: mergeableIds(vocabulary) });
  return {
    kind: `SentencePiece BPE with byte fallback, ${tokens.length.toLocaleString('en')} tokens`,
    stripsLeadingSpace: addSpacePrefix,
    shrinkage: 1,
    addBos: true,
    defaultIds: { bos: 1, eos: 2 },
    encodeText({ text }, _special, into) {
      const piece = (addSpacePrefix ? ` ${text}` : text).replaceAll(' ', escapedSpace);
      return encodePieces([piece], encodePiece, into);
    },
    bytesOf: (id, token) => spmBytes(types[id], token),
  };
}

function mergedSpmParts(vocabulary: GgufVocabulary): AlgorithmParts {
  const { tokens, types, ids } = vocabulary;
  const unknownId = tokenId(vocabulary, 'tokenizer.ggml.unknown_token_id');
  const encodePiece = mergingEncoder(vocabulary, false, {
    kind: 'characters',
    byteFallback: true,
    unknownId,
    fuseUnknown: false,
  });
  return {
    kind: `BPE of characters with byte fallback, ${tokens.length.toLocaleString('en')} tokens`,
    stripsLeadingSpace: false,
    shrinkage: spellsEveryByteToken(ids) ? 1 : Number.POSITIVE_INFINITY,
    addBos: true,
    defaultIds: {},
    encodeText: ({ text }, _special, into) =>
      encodePieces([text.replaceAll(' ', escapedSpace)], encodePiece, into),
    bytesOf: (id, token) => spmBytes(types[id], token),
  };
}

/** Tokens that begin a word carry a mark, continuations do not. */
/** BERT's default; the files do not say. */
const LONGEST_WORD = 100;

function wordPieceParts(vocabulary: GgufVocabulary): AlgorithmParts {
  const { reader, tokens, types, ids } = vocabulary;
  const beginnings = new Map<string, number>();
  const continuations = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    if (types[id] === tokenTypes.control || types[id] === tokenTypes.unknown || token === '') continue;
    if (token.startsWith(escapedSpace)) beginnings.set(token.slice(escapedSpace.length), id);
    else continuations.set(token, id);
  }
  const unknownId = tokenId(vocabulary, 'tokenizer.ggml.unknown_token_id') ?? ids.get('[UNK]');
  if (unknownId === undefined) throw reader.fault('tokenizer.ggml.unknown_token_id', 'is missing');
  // The vocabulary alone shows whether text is lowercased.
  const lowercases = ![...beginnings.keys()].some((word) => /[A-Z]/.test(word));
  const fold = bertFolder({ cleans: true, partsIdeographs: true, stripsAccents: lowercases, lowercases });
  const encodeWord = wordPieceEncoder({ beginnings, continuations, unknownId, longestWord: LONGEST_WORD });
  return {
    kind: `WordPiece, ${lowercases ? 'without case, ' : ''}${tokens.length.toLocaleString('en')} tokens`,
    stripsLeadingSpace: true,
    shrinkage: Number.POSITIVE_INFINITY,
    addBos: true,
    addEos: true,
    defaultIds: {
      bos: tokenId(vocabulary, 'tokenizer.ggml.cls_token_id') ?? ids.get('[CLS]'),
      eos: tokenId(vocabulary, 'tokenizer.ggml.seperator_token_id') ?? ids.get('[SEP]'),
    },
    *encodeText({ text }, _special, into) {
      // Words do not cross spaces, so a long text can be cut at them.
      for (let start = 0; start < text.length; ) {
        const space = text.indexOf(' ', start + LONG_TEXT);
        const end = space === -1 ? text.length : space;
        yield* encodePieces(bertWords(fold(text.slice(start, end))), encodeWord, into);
        start = end;
      }
    },
    bytesOf: (id, token) => spmBytes(types[id], token),
  };
}

function spmBytes(type: number | undefined, token: string): Uint8Array {
  if (type === tokenTypes.byte) return Uint8Array.of(Number.parseInt(token.slice(3, 5), 16));
  return Buffer.from(type === tokenTypes.control ? token : token.replaceAll(escapedSpace, ' '));
}

function mergeableIds({ tokens, types }: GgufVocabulary): Map<string, number> {
  const excluded: readonly number[] = [tokenTypes.control, tokenTypes.unknown, tokenTypes.byte];
  const mergeable = new Map<string, number>();
  for (const [id, token] of tokens.entries()) {
    if (token !== '' && !excluded.includes(types[id] as number)) mergeable.set(token, id);
  }
  return mergeable;
}

function unknownPreTokenizer(file: string, name: string): ModelFileError {
  return new ModelFileError({
    file,
    field: 'tokenizer.ggml.pre',
    problem: `the pre-tokenizer ${JSON.stringify(name)} is not known`,
    remedy: `Known ones: ${preTokenizerNames.join(', ')}.`,
  });
}

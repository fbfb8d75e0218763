// A tokenizer from GGUF metadata: byte-level BPE ("gpt2"), SentencePiece ("llama"), SentencePiece's symbols with BPE
// merges ("gemma4"), or WordPiece ("bert"). Defaults are those that converters rely on.

import { type GgufValue, MetadataReader } from '../weights/gguf-metadata.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { type AddedToken, addedTokenSplitter } from './added-tokens.ts';
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
import { escapedSpace, spmEncoder } from './spm.ts';
import { LONG_TEXT } from './text-splitter.ts';
import { assembleTokenizer, type Tokenizer, type TokenizerParts, turnEndIds } from './tokenizer.ts';
import { bertFolder, bertWords, wordPieceEncoder } from './wordpiece.ts';

export interface GgufMetadata {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
}

const tokenTypes = { unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

const endKeys: readonly string[] = ['tokenizer.ggml.eot_token_id', 'tokenizer.ggml.eom_token_id'];

interface GgufVocabulary {
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

const algorithms: Readonly<Record<string, (vocabulary: GgufVocabulary, path: string) => AlgorithmParts>> = {
  gpt2: byteLevelParts,
  llama: spmParts,
  gemma4: mergedSpmParts,
  bert: wordPieceParts,
};

export function ggufTokenizer(gguf: GgufMetadata): Tokenizer {
  const reader = new MetadataReader(gguf);
  const model = reader.string('tokenizer.ggml.model');
  const partsOf = algorithms[model];
  if (partsOf === undefined) throw unsupportedModel(gguf.path, model);
  const vocabulary = readVocabulary(reader);
  const parts = partsOf(vocabulary, gguf.path);
  const bosId = tokenId(vocabulary, 'tokenizer.ggml.bos_token_id') ?? parts.defaultIds.bos;
  const eosId = tokenId(vocabulary, 'tokenizer.ggml.eos_token_id') ?? parts.defaultIds.eos;
  const addBos = reader.optionalBoolean('tokenizer.ggml.add_bos_token') ?? parts.addBos;
  const addEos = reader.optionalBoolean('tokenizer.ggml.add_eos_token') ?? parts.addEos ?? false;
  const turnEnds = turnEndsOf(vocabulary);
  const specialIds = specialIdsOf(vocabulary, turnEnds);
  const added = addedTokens(vocabulary, specialIds);
  const declaredEnds = [eosId, ...endKeys.map((key) => tokenId(vocabulary, key))];
  return assembleTokenizer({
    ...parts,
    tokens: vocabulary.tokens,
    bosId,
    eosId,
    eosIds: new Set([...turnEnds, ...declaredEnds.filter((id) => id !== undefined)]),
    prefixIds: addBos && bosId !== undefined ? [bosId] : [],
    suffixIds: addEos && eosId !== undefined ? [eosId] : [],
    specialIds,
    shrinkage: added.some(({ rstrip }) => rstrip) ? Number.POSITIVE_INFINITY : parts.shrinkage,
    splitAddedTokens: addedTokenSplitter(added),
  });
}

function readVocabulary(reader: MetadataReader): GgufVocabulary {
  const tokens = reader.strings('tokenizer.ggml.tokens');
  const types = reader.optionalNumbers('tokenizer.ggml.token_type') ?? new Int32Array(tokens.length).fill(1);
  if (types.length !== tokens.length) {
    const problem = `has ${types.length} entries for ${tokens.length} tokens`;
    throw reader.fault('tokenizer.ggml.token_type', problem);
  }
  const ids = new Map<string, number>();
  for (const [id, token] of tokens.entries()) if (token !== '') ids.set(token, id);
  return { reader, tokens, ids, types };
}

/** Converters write 2^32 - 1 for "none". */
function tokenId({ reader, tokens }: GgufVocabulary, key: string): number | undefined {
  const id = reader.optionalNumber(key);
  if (id === undefined || id === 0xffffffff || id === -1) return undefined;
  if (id in tokens) return id;
  throw reader.fault(key, `is ${id}, but the vocabulary has ${tokens.length} tokens`);
}

function turnEndsOf({ ids, types }: GgufVocabulary): Set<number> {
  return turnEndIds({
    idOf: (name) => ids.get(name),
    isMarked: (id) => types[id] === tokenTypes.control || types[id] === tokenTypes.userDefined,
  });
}

/** Control tokens, and turn ends by name: converters do not always mark them. */
function specialIdsOf({ tokens, types }: GgufVocabulary, turnEnds: ReadonlySet<number>): Set<number> {
  const ids = new Set(turnEnds);
  for (let id = 0; id < tokens.length; id++) {
    if (types[id] === tokenTypes.control || types[id] === tokenTypes.unknown) ids.add(id);
  }
  return ids;
}

function addedTokens(vocabulary: GgufVocabulary, specialIds: ReadonlySet<number>): AddedToken[] {
  const strips = whitespaceStripper(vocabulary);
  const added: AddedToken[] = [];
  for (const [id, content] of vocabulary.tokens.entries()) {
    const special = specialIds.has(id);
    if (!special && vocabulary.types[id] !== tokenTypes.userDefined) continue;
    added.push({ id, content, special, lstrip: false, rstrip: strips(content), singleWord: false });
  }
  return added;
}

/** Phi-3's control tokens remove the whitespace after them; GGUF shows it by the model's name alone. */
function whitespaceStripper({ reader }: GgufVocabulary): (content: string) => boolean {
  const name = reader.optionalString('general.name') ?? '';
  const keeps = new Set(['<unk>', '<s>', '<|endoftext|>']);
  return /phi-?3/i.test(name) ? (content) => !keeps.has(content) : () => false;
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

function spmParts(vocabulary: GgufVocabulary): AlgorithmParts {
  const { reader, tokens, types, ids } = vocabulary;
  const scores = reader.numbers('tokenizer.ggml.scores');
  if (scores.length !== tokens.length) {
    throw reader.fault('tokenizer.ggml.scores', `has ${scores.length} entries for ${tokens.length} tokens`);
  }
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

/** BERT's default; the files do not say. */
const LONGEST_WORD = 100;

/** Tokens that begin a word carry a mark, continuations do not. */
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

function unsupportedModel(file: string, model: string): ModelFileError {
  return new ModelFileError({
    file,
    field: 'tokenizer.ggml.model',
    problem: `the tokenizer ${JSON.stringify(model)} is not supported`,
    remedy: `Use a model with one of: ${Object.keys(algorithms).join(', ')}.`,
  });
}

function unknownPreTokenizer(file: string, name: string): ModelFileError {
  return new ModelFileError({
    file,
    field: 'tokenizer.ggml.pre',
    problem: `the pre-tokenizer ${JSON.stringify(name)} is not known`,
    remedy: `Known ones: ${preTokenizerNames.join(', ')}.`,
  });
}

// A tokenizer from GGUF metadata: byte-level BPE ("gpt2"), SentencePiece ("llama"), SentencePiece's symbols with BPE
// merges ("gemma4"), Unigram ("t5"), or WordPiece ("bert"). Defaults are those that converters rely on.

import { type GgufValue, MetadataReader } from '../weights/gguf-metadata.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { type AddedToken, addedTokenSplitter } from './added-tokens.ts';
import { algorithms, type GgufVocabulary, tokenId, tokenTypes } from './gguf-algorithms.ts';
import { assembleTokenizer, type Tokenizer, turnEndIds } from './tokenizer.ts';

export interface GgufMetadata {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
}

const endKeys: readonly string[] = ['tokenizer.ggml.eot_token_id', 'tokenizer.ggml.eom_token_id'];

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
    betweenIds: betweenIdsOf(vocabulary),
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

/** Some models have a second separator between two texts. */
function betweenIdsOf(vocabulary: GgufVocabulary): readonly number[] {
  const id = tokenId(vocabulary, 'tokenizer.ggml.seperator_token_id');
  const adds = vocabulary.reader.optionalBoolean('tokenizer.ggml.add_sep_token') ?? false;
  return adds && id !== undefined ? [id] : [];
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

function unsupportedModel(file: string, model: string): ModelFileError {
  return new ModelFileError({
    file,
    field: 'tokenizer.ggml.model',
    problem: `the tokenizer ${JSON.stringify(model)} is not supported`,
    remedy: `Use a model with one of: ${Object.keys(algorithms).join(', ')}.`,
  });
}

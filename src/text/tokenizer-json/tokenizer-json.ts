// A tokenizer from a Hugging Face folder: tokenizer.json has the rules, other files the BOS and EOS tokens. An
// unknown component is an error that names it.

import { isJsonObject, type JsonObject } from '../../weights/json-file.ts';
import { type AddedToken, addedTokenSplitter } from '../added-tokens.ts';
import {
  bpeEncoder,
  encodePieces,
  fromByteCharacters,
  MergeOutsideVocabulary,
  type PieceEncoder,
  type SymbolRule,
  spellsEveryByte,
  spellsEveryByteToken,
} from '../bpe.ts';
import { assembleTokenizer, type TextEncoding, type Tokenizer, turnEndIds } from '../tokenizer.ts';
import { unigramEncoder } from '../unigram.ts';
import { wordPieceEncoder } from '../wordpiece.ts';
import { type JsonDecoder, readDecoder } from './decoder.ts';
import { JsonNode } from './json-node.ts';
import { type Normalizer, normalizerShrinkage, readNormalizer } from './normalizer.ts';
import { readPostProcessor, type Surroundings } from './post-processor.ts';
import { type JsonPreTokenizer, readPreTokenizer } from './pre-tokenizer.ts';

export interface TokenizerFiles {
  readonly path: string;
  readonly tokenizer: JsonObject;
  readonly tokenizerConfig?: JsonObject | undefined;
  readonly specialTokensMap?: JsonObject | undefined;
  readonly generationConfig?: JsonObject | undefined;
  readonly modelConfig?: JsonObject | undefined;
}

interface JsonVocabulary {
  readonly ids: ReadonlyMap<string, number>;
  /** By id, with added tokens. */
  readonly tokens: readonly (string | undefined)[];
  readonly added: readonly JsonAddedToken[];
}

interface JsonAddedToken extends AddedToken {
  /** The normalized content, where the token is matched in normalized text. */
  readonly normalizedContent: string | undefined;
}

export function jsonTokenizer(files: TokenizerFiles): Tokenizer {
  const root = new JsonNode(files.path, '', files.tokenizer);
  const model = readModel(root);
  const normalize = readNormalizer(root.child('normalizer'));
  const vocabulary = readVocabulary(root, model, normalize);
  const preTokenizer = readPreTokenizer(root.child('pre_tokenizer'));
  const decoder = readDecoder(root.child('decoder'));
  const named = namedTokens(files, vocabulary);
  const special = vocabulary.added.filter((token) => token.special);
  return assembleTokenizer({
    kind: describe(preTokenizer, model, vocabulary),
    tokens: vocabulary.tokens,
    bosId: named.bosId,
    eosId: named.eosId,
    eosIds: new Set([
      ...turnEndIds({
        idOf: (name) => vocabulary.added.find((token) => token.content === name)?.id,
        isMarked: () => true,
      }),
      ...(named.eosId === undefined ? [] : [named.eosId]),
      ...declaredEnds(files.generationConfig),
      ...declaredEnds(files.modelConfig),
    ]),
    ...surroundings(readPostProcessor(root.child('post_processor')), files.tokenizerConfig, named),
    stripsLeadingSpace: decoder.stripsLeadingSpace,
    specialIds: new Set(special.map((token) => token.id)),
    splitAddedTokens: addedTokenSplitter(
      vocabulary.added.filter((token) => token.normalizedContent === undefined),
    ),
    shrinkage: vocabulary.added.some(({ lstrip, rstrip }) => lstrip || rstrip)
      ? Number.POSITIVE_INFINITY
      : normalizerShrinkage(root.child('normalizer')) * pieceShrinkage(model, vocabulary, preTokenizer),
    encodeText: textEncoding(
      normalize,
      vocabulary,
      preTokenizer,
      pieceEncoder(model, vocabulary, preTokenizer),
    ),
    bytesOf: byteReader(decoder, preTokenizer, vocabulary),
  });
}

function readModel(root: JsonNode): JsonNode {
  const model = root.child('model');
  if (model === undefined) throw root.fault('model', 'is missing');
  // Old files omit the type.
  const type = model.value.type === undefined && model.value.merges !== undefined ? 'BPE' : model.type;
  if (type === 'WordPiece' || type === 'Unigram') return model;
  if (type !== 'BPE') throw model.unsupportedType();
  for (const key of ['continuing_subword_prefix', 'end_of_word_suffix']) {
    if (model.value[key]) throw model.fault(key, 'is not supported');
  }
  return model;
}

function readVocabulary(root: JsonNode, model: JsonNode, normalize: Normalizer): JsonVocabulary {
  const ids = new Map<string, number>();
  const tokens: (string | undefined)[] = [];
  const listed = isUnigram(model)
    ? scoredTokens(model).map(({ token }, id) => [token, id] as const)
    : idsOf(model);
  for (const [token, id] of listed) {
    ids.set(token, id);
    tokens[id] = token;
  }
  const added = root.children('added_tokens').map((node) => readAddedToken(node, normalize));
  for (const token of added) tokens[token.id] = token.content;
  return { ids, tokens, added };
}

function idsOf(model: JsonNode): (readonly [token: string, id: number])[] {
  const vocab = model.child('vocab');
  if (vocab === undefined) throw model.fault('vocab', 'is missing');
  return Object.keys(vocab.value).map((token) => [token, vocab.integer(token)]);
}

/** Of a Unigram model, by id. */
function scoredTokens(model: JsonNode): { readonly token: string; readonly score: number }[] {
  return model.list('vocab').map((entry, id) => {
    const [token, score] = Array.isArray(entry) ? entry : [];
    if (typeof token === 'string' && typeof score === 'number') return { token, score };
    throw model.fault(`vocab[${id}]`, 'is not a pair of token and score');
  });
}

function readAddedToken(node: JsonNode, normalize: Normalizer): JsonAddedToken {
  const special = node.boolean('special', false);
  const content = node.string('content');
  return {
    id: node.integer('id'),
    content,
    special,
    lstrip: node.boolean('lstrip', false),
    rstrip: node.boolean('rstrip', false),
    singleWord: node.boolean('single_word', false),
    normalizedContent: node.boolean('normalized', !special) ? normalize(content) : undefined,
  };
}

const isWordPiece = ({ value }: JsonNode): boolean => value.type === 'WordPiece';
const isUnigram = ({ value }: JsonNode): boolean => value.type === 'Unigram';

function pieceEncoder(
  model: JsonNode,
  { ids }: JsonVocabulary,
  preTokenizer: JsonPreTokenizer,
): PieceEncoder {
  if (isWordPiece(model)) return wordEncoder(model, ids);
  if (isUnigram(model)) return scoringEncoder(model, ids);
  const symbols = symbolRule(model, ids, preTokenizer);
  try {
    const ignoreMerges = model.boolean('ignore_merges', false);
    return bpeEncoder({ ids, merges: readMerges(model), ignoreMerges, symbols });
  } catch (error) {
    throw error instanceof MergeOutsideVocabulary ? model.fault('merges', error.message) : error;
  }
}

function wordEncoder(model: JsonNode, ids: ReadonlyMap<string, number>): PieceEncoder {
  const prefix = model.string('continuing_subword_prefix');
  const beginnings = new Map<string, number>();
  const continuations = new Map<string, number>();
  for (const [token, id] of ids) {
    beginnings.set(token, id);
    if (token.startsWith(prefix)) continuations.set(token.slice(prefix.length), id);
  }
  const unknownId = ids.get(model.string('unk_token'));
  if (unknownId === undefined) throw model.fault('unk_token', 'is not in the vocabulary');
  const longestWord = model.integer('max_input_chars_per_word');
  return wordPieceEncoder({ beginnings, continuations, unknownId, longestWord });
}

function scoringEncoder(model: JsonNode, ids: ReadonlyMap<string, number>): PieceEncoder {
  const unknownId = model.value.unk_id ?? undefined;
  if (!Number.isSafeInteger(unknownId)) throw model.fault('unk_id', 'is missing');
  return unigramEncoder({
    ids,
    scores: scoredTokens(model).map(({ score }) => score),
    unknownId: unknownId as number,
    byteIds: model.boolean('byte_fallback', false) ? ids : undefined,
  });
}

function symbolRule(
  model: JsonNode,
  ids: ReadonlyMap<string, number>,
  { byteLevel, byteCharacters }: JsonPreTokenizer,
): SymbolRule {
  const unknown = model.value.unk_token ?? undefined;
  const unknownId = unknown === undefined ? undefined : ids.get(model.string('unk_token'));
  if (byteLevel && !byteCharacters) return { kind: 'bytes', unknownId };
  return {
    kind: 'characters',
    byteFallback: model.boolean('byte_fallback', false),
    unknownId,
    fuseUnknown: model.boolean('fuse_unk', false),
  };
}

/** 1 where every character takes part in a token, Infinity where a token may swallow or lose many. */
function pieceShrinkage(model: JsonNode, { ids }: JsonVocabulary, preTokenizer: JsonPreTokenizer): number {
  if (isWordPiece(model) || isUnigram(model)) return Number.POSITIVE_INFINITY;
  const rule = symbolRule(model, ids, preTokenizer);
  const keeps =
    (preTokenizer.byteLevel && spellsEveryByte(ids)) ||
    (rule.kind === 'characters' && rule.byteFallback && spellsEveryByteToken(ids)) ||
    (rule.unknownId !== undefined && !(rule.kind === 'characters' && rule.fuseUnknown));
  return keeps && !preTokenizer.removesText ? 1 : Number.POSITIVE_INFINITY;
}

/** Written as "a b" or, as tokens may contain spaces, as ["a", "b"]. */
function readMerges(model: JsonNode): (readonly [string, string])[] {
  return model.list('merges').map((merge, rank) => {
    const [left, right, ...more] =
      typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : [];
    if (typeof left === 'string' && typeof right === 'string' && more.length === 0) return [left, right];
    throw model.fault(`merges[${rank}]`, 'is not a pair of tokens');
  });
}

function textEncoding(
  normalize: Normalizer,
  { added }: JsonVocabulary,
  preTokenizer: JsonPreTokenizer,
  encodePiece: PieceEncoder,
): TextEncoding {
  const inNormalized = added.flatMap((token) =>
    token.normalizedContent === undefined ? [] : [{ ...token, content: token.normalizedContent }],
  );
  const splitNormalized = addedTokenSplitter(inNormalized);
  return function* ({ text, first }, special, into) {
    for (const segment of splitNormalized(normalize(text), special)) {
      if (segment.kind === 'pause') yield;
      else if (segment.kind === 'token') into.push(segment.id);
      else yield* encodePieces(preTokenizer.split(segment.text, first && segment.first), encodePiece, into);
    }
  };
}

function byteReader(
  decoder: JsonDecoder,
  preTokenizer: JsonPreTokenizer,
  vocabulary: JsonVocabulary,
): (id: number, token: string) => Uint8Array {
  const byteLevel = decoder.byteLevel || preTokenizer.byteLevel;
  const addedContents = new Map(
    vocabulary.added.map((token) => [token.id, token.normalizedContent ?? token.content]),
  );
  const unescaped = (token: string): Uint8Array =>
    Buffer.from(decoder.space === undefined ? token : token.replaceAll(decoder.space, ' '));
  return (id, token) => {
    const added = addedContents.get(id);
    if (added !== undefined) return unescaped(added);
    if (decoder.continuing !== undefined) return wordPart(token, decoder.continuing);
    if (byteLevel) return fromByteCharacters(token) ?? Buffer.from(token);
    const byte = decoder.byteTokens ? /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1] : undefined;
    return byte === undefined ? unescaped(token) : Uint8Array.of(Number.parseInt(byte, 16));
  };
}

function wordPart(token: string, continuing: string): Uint8Array {
  return Buffer.from(token.startsWith(continuing) ? token.slice(continuing.length) : ` ${token}`);
}

interface NamedTokens {
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
}

function namedTokens(files: TokenizerFiles, vocabulary: JsonVocabulary): NamedTokens {
  const idOf = (name: string): number | undefined => {
    const content = specialTokenText(files, `${name}_token`);
    if (content !== undefined) {
      return vocabulary.added.find((token) => token.content === content)?.id ?? vocabulary.ids.get(content);
    }
    // The last resort.
    if (files.tokenizerConfig !== undefined || files.specialTokensMap !== undefined) return undefined;
    return tokenIds(files.modelConfig?.[`${name}_token_id`])[0];
  };
  return { bosId: idOf('bos'), eosId: idOf('eos') };
}

/** Such as `bos_token`. */
export function specialTokenText(
  files: Pick<TokenizerFiles, 'tokenizerConfig' | 'specialTokensMap'>,
  key: string,
): string | undefined {
  for (const settings of [files.tokenizerConfig, files.specialTokensMap]) {
    const token = settings?.[key];
    if (typeof token === 'string') return token;
    if (isJsonObject(token) && typeof token.content === 'string') return token.content;
  }
  return undefined;
}

function declaredEnds(config: JsonObject | undefined): readonly number[] {
  return tokenIds(config?.eos_token_id);
}

function tokenIds(value: unknown): readonly number[] {
  const ids = Array.isArray(value) ? value : [value];
  return ids.filter((id) => Number.isSafeInteger(id));
}

/** `add_bos_token` and `add_eos_token` override the post-processor. */
function surroundings(
  written: Surroundings,
  config: JsonObject | undefined,
  { bosId, eosId }: NamedTokens,
): Surroundings {
  return {
    prefixIds: overruled(written.prefixIds, bosId, config?.add_bos_token),
    suffixIds: overruled(written.suffixIds, eosId, config?.add_eos_token),
    betweenIds: written.betweenIds,
  };
}

function overruled(written: readonly number[], id: number | undefined, add: unknown): readonly number[] {
  if (id === undefined || typeof add !== 'boolean') return written;
  if (add) return written.length === 0 ? [id] : written;
  return written.filter((other) => other !== id);
}

function describe(preTokenizer: JsonPreTokenizer, model: JsonNode, { tokens }: JsonVocabulary): string {
  if (isWordPiece(model)) return `WordPiece, ${tokens.length.toLocaleString('en')} tokens`;
  if (isUnigram(model)) return `Unigram, ${tokens.length.toLocaleString('en')} tokens`;
  const algorithm = preTokenizer.byteLevel ? 'byte-level BPE' : 'SentencePiece-style BPE';
  const fallback = model.boolean('byte_fallback', false) ? ' with byte fallback' : '';
  return `${algorithm}${fallback}, ${tokens.length.toLocaleString('en')} tokens`;
}

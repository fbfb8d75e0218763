// The requests that an engine has and has not ended, by id and by sequence. Says which requests cannot be served.

import { BLOCK_TOKENS } from '../compute/backend.ts';
import type { GrammarTables } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import { Grammars, type Matching, noGrammars } from './grammars.ts';
import { imagesProblem, type PromptImages, type VisionLimits } from './images/prompt-images.ts';
import { OpenAnswer, OpenEmbedding, type OpenRequest, OpenScoring } from './open-request.ts';
import { type AnswerRequest, type EngineRequest, isAnswered, type RequestError } from './request.ts';
import { notContinued, notPrepared, notScored, notSeeing, promptError } from './request-errors.ts';
import type { Sequence } from './scheduler/sequence.ts';
import { ShownImages } from './scheduler/shown-images.ts';

export interface RequestLimits {
  readonly vocabSize: number;
  /** Prompt and answer together never grow beyond it. */
  readonly contextLength: number;
  /** The model's own end tokens. */
  readonly endIds: readonly number[];
  readonly blockCount: number;
  /** The model embeds texts, and continues none. */
  readonly wholeTexts?: boolean | undefined;
  /** Where the model has a vision tower. */
  readonly vision?: VisionLimits | undefined;
}

type OpenResult =
  | { readonly ok: true; readonly open: OpenRequest }
  | { readonly ok: false; readonly error: RequestError };

export class OpenRequests {
  readonly #limits: RequestLimits;
  readonly #byId = new Map<string, OpenRequest>();
  readonly #bySequence = new Map<Sequence, OpenRequest>();
  #grammars: Grammars | undefined;

  constructor(limits: RequestLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#byId.size;
  }

  all(): OpenRequest[] {
    return [...this.#byId.values()];
  }

  get(id: string): OpenRequest | undefined {
    return this.#byId.get(id);
  }

  of(sequence: Sequence): OpenRequest | undefined {
    return this.#bySequence.get(sequence);
  }

  /** Those of the sequences that are answered, not embedded. */
  answers(sequences: readonly Sequence[]): OpenAnswer[] {
    return sequences.map((sequence) => this.of(sequence)).filter((open) => open instanceof OpenAnswer);
  }

  setVocabulary(vocabulary: VocabularyTables): void {
    this.#grammars ??= new Grammars(vocabulary);
  }

  grammarTables(key: string): GrammarTables | undefined {
    return this.#grammars?.tablesOf(key);
  }

  /** The request with its sequence, or why it cannot be served. Not one of these until it is added. */
  open(request: EngineRequest): OpenResult {
    const error = this.#refusal(request);
    if (error !== undefined) return { ok: false, error };
    const opened = this.#open(request);
    const images = imagesOf(request);
    if (opened.ok && images !== undefined) {
      opened.open.sequence.images = new ShownImages(images, request.prompt, this.#limits.vision?.bothWays);
    }
    return opened;
  }

  #open(request: EngineRequest): OpenResult {
    if (request.pooling !== undefined) return { ok: true, open: new OpenEmbedding(request) };
    if (!isAnswered(request)) return { ok: true, open: new OpenScoring(request) };
    // What mirostat learned follows from the logits of every token: the answer is sampled again from its beginning.
    const isRepeated = request.parameters.mirostat !== 0;
    const begun = isRepeated ? { ...request, answer: [] } : request;
    const matching: Matching = this.#grammars?.matcher(begun) ?? noGrammars(begun);
    if (!matching.ok) return matching;
    const limits = { ...this.#limits, maxTokens: this.#lengthLimit(request) };
    const publishedTokens = isRepeated ? request.answer?.length : 0;
    const open = new OpenAnswer(begun, limits, matching.matcher, publishedTokens);
    const { obstacle } = open;
    return obstacle === undefined ? { ok: true, open } : { ok: false, error: obstacle };
  }

  add(open: OpenRequest): void {
    this.#byId.set(open.request.id, open);
    this.#bySequence.set(open.sequence, open);
  }

  remove(open: OpenRequest): void {
    this.#byId.delete(open.request.id);
    this.#bySequence.delete(open.sequence);
  }

  #refusal(request: EngineRequest): RequestError | undefined {
    const { id, pooling } = request;
    const { wholeTexts, contextLength, vocabSize } = this.#limits;
    if (this.#byId.has(id)) return { code: 'invalid', message: `request ${id} is running already` };
    if (wholeTexts && pooling === undefined) return notContinued;
    return promptError(request, contextLength, vocabSize) ?? this.#imagesError(request);
  }

  #imagesError(request: EngineRequest): RequestError | undefined {
    if (request.pictures !== undefined) return notPrepared;
    const images = imagesOf(request);
    if (images === undefined) return undefined;
    if (this.#limits.vision === undefined) return notSeeing;
    // All of an image, or of a prompt, is computed in one step: there would be logits of all its tokens at once.
    if ('scoring' in request && this.#limits.vision.bothWays !== undefined) return notScored;
    const problem = imagesProblem(images, request.prompt.length);
    return problem === undefined ? undefined : { code: 'invalid', message: problem };
  }

  /** By default an answer may fill the context, or what the account may hold of the cache if that is smaller. */
  #lengthLimit({ prompt, parameters: { maxTokens }, kvShare = 1 }: AnswerRequest): number {
    const { contextLength, blockCount } = this.#limits;
    if (maxTokens !== undefined) return Math.min(contextLength, prompt.length + maxTokens);
    const blocks = Math.max(1, Math.floor(kvShare * blockCount));
    return Math.min(contextLength, Math.max(prompt.length + 1, blocks * BLOCK_TOKENS));
  }
}

/** None where there are none of them. */
export function imagesOf({ images }: EngineRequest): PromptImages | undefined {
  return images === undefined || images.images.length === 0 ? undefined : images;
}

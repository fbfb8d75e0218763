// Scores queries with documents: by the head of a cross-encoder, or by the cosine of their vectors where the model embeds texts.

import type { TokenUsage } from '../../generation/answer-source.ts';
import { classifierOf, cosine, scoresOf } from '../../generation/embedding.ts';
import { notCapable } from '../../generation/generation-error.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import { pairInput, type TextPair } from '../../generation/text-pairs.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { badRequest } from '../http/errors.ts';
import { embedInputs, type TextPlan } from '../jobs/embed-inputs.ts';
import type { RequestContext } from '../request/request-scope.ts';

export interface PairRequest extends RequestContext {
  readonly modelName: string | undefined;
  /** One for all documents, or one for each. */
  readonly queries: readonly string[];
  readonly documents: readonly string[];
  readonly names: { query(at: number): string; document(at: number): string; readonly raw: string };
  readonly instruction: string | undefined;
  readonly cuts: boolean;
  /** The outputs of the head as they are. */
  readonly raw: boolean;
}

export interface ScoredPairs {
  readonly model: ServedModel;
  readonly scores: readonly number[];
  readonly usage: TokenUsage;
}

export async function scorePairs(
  asked: PairRequest,
  answer: (scored: ScoredPairs) => Promise<void>,
): Promise<void> {
  const { context, documents, queries, names } = asked;
  const most = context.settings.maxEmbeddingInputs;
  if (documents.length > most) {
    const [list = ''] = names.document(0).split('[');
    throw badRequest(list, `${documents.length} are too many; ${most} are possible`);
  }
  const request = {
    ...asked,
    forceLow: false,
    sequences: documents.length + queries.length,
    plan: (model: ServedModel) =>
      model.classifier === undefined ? vectorPlan(asked, model) : pairPlan(asked, model),
  };
  await embedInputs(request, async ({ model, vectors, usage }) => {
    const scores =
      model.classifier === undefined ? cosines(asked, vectors) : headScores(asked, model, vectors);
    await answer({ model, scores, usage });
  });
}

function pairPlan(asked: PairRequest, model: ServedModel): TextPlan {
  const { instruction, cuts, documents, names } = asked;
  const classifier = classifierOf(model);
  scoredLabel(model);
  const inputs = documents.map((document, at): PromptInput => {
    const pair: TextPair = { query: queryOf(asked, at), document };
    return pairInput(pair, model, classifier, { instruction, cuts });
  });
  return { inputs, nameOf: (at) => names.document(at), classifies: true };
}

/** Vectors of a model that was not trained for embeddings say little about texts. */
function vectorPlan(
  { queries, documents, names, instruction, raw }: PairRequest,
  model: ServedModel,
): TextPlan {
  const { name, pooling } = model;
  if (!pooling.possible) throw notCapable(name, pooling.problem);
  if (!pooling.declared) {
    throw notCapable(
      name,
      'is not made for comparing texts; use a cross-encoder, or one that is made for embeddings',
    );
  }
  if (instruction !== undefined)
    throw badRequest('instruction', 'write it before the query: the model embeds each text alone');
  if (raw) throw badRequest(names.raw, 'is for cross-encoders; this model embeds texts');
  const inputs = [...queries, ...documents].map((text): PromptInput => ({ kind: 'text', text, eos: true }));
  const nameOf = (at: number) =>
    at < queries.length ? names.query(at) : names.document(at - queries.length);
  return { inputs, nameOf };
}

function queryOf({ queries }: Pick<PairRequest, 'queries'>, at: number): string {
  return (queries.length === 1 ? queries[0] : queries[at]) as string;
}

function cosines({ queries, documents }: PairRequest, vectors: readonly Float32Array[]): number[] {
  return documents.map((_, at) => {
    const query = vectors[queries.length === 1 ? 0 : at] as Float32Array;
    return cosine(query, vectors[queries.length + at] as Float32Array);
  });
}

function headScores({ raw }: PairRequest, model: ServedModel, outputs: readonly Float32Array[]): number[] {
  const label = scoredLabel(model);
  const classifier = classifierOf(model);
  return outputs.map((one) => (raw ? [...one] : scoresOf(one, classifier))[label] as number);
}

/** Which of the labels says that a document is relevant. */
function scoredLabel(model: ServedModel): number {
  const { labels } = classifierOf(model);
  const yes = labels.length === 1 ? 0 : labels.findIndex((label) => /^yes$/i.test(label));
  if (yes >= 0) return yes;
  throw notCapable(
    model.name,
    `classifies texts by ${labels.length} labels, none of which is relevance; /classify has them`,
  );
}

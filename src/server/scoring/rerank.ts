// POST /rerank: documents by their relevance to a query. `documents` are answered as Jina, Cohere, vLLM and llama-server do it, `texts` as
// Text Embeddings Inference does.

import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';
import { readBody } from '../http/parse-body.ts';
import { promptUsage } from '../jobs/embed-inputs.ts';
import { requestContext } from '../request/request-scope.ts';
import { rerankRules, type rerankSchema } from './schemas.ts';
import { type ScoredPairs, scorePairs } from './score-pairs.ts';

type RerankBody = z.infer<typeof rerankSchema>;

interface RankedDocument {
  readonly index: number;
  readonly score: number;
}

export async function serveRerank(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  version: 1 | 2,
): Promise<FastifyReply> {
  const body = readBody(rerankRules, request, reply);
  const {
    documents: given,
    texts: plain,
    query,
    model: modelName,
    instruction,
    raw_scores: raw = false,
  } = body;
  if ((given === undefined) === (plain === undefined)) {
    throw badRequest('documents', 'give either documents or texts', 'missing_required_parameter');
  }
  const documents = plain ?? (given ?? []).map((one) => (typeof one === 'string' ? one : one.text));
  const list = plain === undefined ? 'documents' : 'texts';
  const asked = {
    ...requestContext(context, request, reply),
    modelName,
    queries: [query],
    documents,
    names: { query: () => 'query', document: (at: number) => `${list}[${at}]`, raw: 'raw_scores' },
    instruction,
    cuts: cutsOf(body),
    raw,
  };
  await scorePairs(asked, async (scored) => {
    const ranked = scored.scores
      .map((score, index): RankedDocument => ({ index, score }))
      .sort((a, b) => b.score - a.score || a.index - b.index)
      .slice(0, body.top_n);
    reply.send(
      plain === undefined ? results(body, documents, ranked, scored, version) : rankedTexts(body, ranked),
    );
  });
  return reply;
}

export function cutsOf(body: Pick<RerankBody, 'truncate' | 'truncate_prompt_tokens'>): boolean {
  return body.truncate === true || body.truncate_prompt_tokens === -1;
}

function rankedTexts({ texts, return_text: shown }: RerankBody, ranked: readonly RankedDocument[]): object {
  return ranked.map(({ index, score }) => ({ index, ...(shown ? { text: texts?.[index] } : {}), score }));
}

function results(
  { return_documents: shown = true }: RerankBody,
  documents: readonly string[],
  ranked: readonly RankedDocument[],
  { model, usage }: ScoredPairs,
  version: 1 | 2,
): object {
  // Cohere's second version never returns documents, and says what was billed.
  const units = { api_version: { version: '2' }, billed_units: { search_units: 1 } };
  return {
    id: `rerank-${randomUUID()}`,
    object: 'list',
    model: model.name,
    results: ranked.map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(shown && version === 1 ? { document: { text: documents[index] } } : {}),
    })),
    usage: promptUsage(usage),
    ...(version === 2 ? { meta: units } : {}),
  };
}

// Sends the answer of a completion, whoever gives it, in the shape of its protocol.

import type { AnswerSource } from '../../generation/answer-source.ts';
import type { FinishReason } from '../../sampling/stop-condition.ts';
import { isServerFault, kindOf } from '../http/errors.ts';
import type { AnswerBudget } from '../limits/answer-budget.ts';
import type { RequestRecord } from '../request/request-record.ts';
import type { AdmittedScope } from '../request/request-scope.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import { CAPPED_HEADER } from './answer-terms.ts';
import type { CompletionRequest } from './completion-request.ts';
import { respondStream, respondWhole } from './respond.ts';

interface SentAnswer {
  readonly source: AnswerSource;
  readonly shape: AnswerShape;
  readonly record: RequestRecord;
  /** What each answer begins with. */
  readonly echoes: readonly string[];
  /** Whether the client may resume the stream. */
  readonly archived: Promise<boolean>;
  /** Called with each token that the client was sent. */
  readonly follow?: ((choice: number, token: number) => void) | undefined;
}

type Job = CompletionRequest & AdmittedScope & { readonly budget: AnswerBudget | undefined };

export function answerBase(
  { body }: CompletionRequest,
  { id, arrivedMs }: RequestRecord,
  model: string,
  fingerprint: string,
): ShapeOptions['base'] {
  return {
    id,
    created: Math.floor(arrivedMs / 1000),
    model,
    system_fingerprint: fingerprint,
    ...(body.service_tier === undefined ? {} : { service_tier: 'default' as const }),
  };
}

/** What a shape is given in any case. */
export function shapeBasis(
  job: Job,
  record: RequestRecord,
  source: AnswerSource,
): Pick<ShapeOptions, 'usageComes' | 'choices' | 'cachedTokens' | 'slot' | 'abort' | 'times'> {
  return {
    usageComes: job.includeUsage,
    choices: job.choices,
    cachedTokens: (prompt) => source.cachedTokensOf(prompt),
    slot: (index) => source.slotOf(index),
    abort: job.abort,
    times: () => record.times,
  };
}

export async function sendAnswer(
  job: Job,
  { source, shape, record, echoes, archived, follow }: SentAnswer,
): Promise<FinishReason[]> {
  const { context, body, request, reply, signal, budget } = job;
  const answer = {
    generation: source,
    shape,
    echoes,
    queued: record,
    charge: () => {
      const { completionTokens } = source.usage;
      if (body.stream !== true && budget?.isSpent) reply.header(CAPPED_HEADER, String(completionTokens));
      return record.charge(source.usage);
    },
  };
  if (body.stream !== true) return respondWhole(reply, answer, { archived, follow });
  return respondStream(reply, answer, {
    framing: job.framing,
    archived,
    follow,
    after: job.resumption?.after,
    keepAliveMs: context.settings.keepAliveMs,
    signal,
    onFailure: (error) => {
      record.failed(error);
      context.metrics.failed(kindOf(error));
      if (isServerFault(error)) request.log.error({ err: error }, 'stream failed');
    },
  });
}

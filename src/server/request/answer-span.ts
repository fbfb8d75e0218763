// The span of a request, from its arrival to its end, by the names of OpenTelemetry's conventions for generative AI: numbers and
// names, never text.

import type { EndReason } from '../../engine/request.ts';
import type { TokenUsage } from '../../generation/answer-source.ts';
import type { AnswerTimes } from '../../tracing/span.ts';
import { type TraceContext, type TraceHeaders, traceHeaders } from '../../tracing/trace-context.ts';
import type { BegunTrace, Tracer } from '../../tracing/tracer.ts';
import type { UpstreamUse } from '../live/live-event.ts';

interface TracedRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly id: string;
  readonly method: string;
  readonly routeOptions: { readonly url?: string | undefined };
}

interface EndedAnswer extends AnswerTimes {
  readonly kind: 'completion' | 'embedding';
  readonly answerId: string;
  readonly model: string;
  readonly upstream: UpstreamUse | undefined;
  /** Its queue and steps were seen here. */
  readonly isComputedHere: boolean;
  readonly startMs: number;
  readonly usage: TokenUsage;
  readonly reasons: readonly EndReason[];
  readonly outcome: string;
  readonly failed: boolean;
}

export class AnswerSpan {
  readonly #tracer: Tracer;
  readonly #request: TracedRequest;
  readonly #begun: BegunTrace;
  /** Of what an upstream is asked. */
  #client: TraceContext | undefined;

  constructor(tracer: Tracer, request: TracedRequest) {
    this.#tracer = tracer;
    this.#request = request;
    this.#begun = tracer.begin(request.headers);
  }

  /** For engines, which have nothing to do with a trace that nobody takes. */
  get engineTrace(): TraceHeaders | undefined {
    const { context } = this.#begun;
    return context.isSampled ? traceHeaders(context) : undefined;
  }

  /** Another server decides by it whether to take the trace. */
  get upstreamTrace(): TraceHeaders {
    this.#client ??= this.#tracer.child(this.#begun.context);
    return traceHeaders(this.#client);
  }

  end(answer: EndedAnswer): void {
    const { context, parentId } = this.#begun;
    if (!context.isSampled) return;
    const { model, startMs, endMs, submittedMs, outcome, upstream } = answer;
    const name = `${operationOf(answer, this.#request)} ${model}`;
    const error = answer.failed ? outcome : undefined;
    const attributes = this.#attributes(answer);
    this.#tracer.add({ context, parentId, name, kind: 'server', startMs, endMs, attributes, error });
    if (answer.isComputedHere) this.#tracer.addPhases(context, answer);
    if (this.#client === undefined || upstream === undefined) return;
    this.#tracer.add({
      context: this.#client,
      parentId: context.spanId,
      name: `${operationOf(answer, this.#request)} ${upstream.model}`,
      kind: 'client',
      startMs: submittedMs ?? startMs,
      endMs,
      attributes: { 'gen_ai.request.model': upstream.model, 'chairlift.upstream': upstream.name },
      error,
    });
  }

  #attributes(answer: EndedAnswer) {
    const { model, answerId, usage, reasons, outcome, startMs, firstTokenMs } = answer;
    const { id, method, routeOptions } = this.#request;
    return {
      'http.request.method': method,
      'http.route': routeOptions.url,
      'gen_ai.provider.name': 'chairlift',
      'gen_ai.operation.name': operationOf(answer, this.#request),
      'gen_ai.request.model': model,
      'gen_ai.response.id': answerId,
      'gen_ai.response.finish_reasons': reasons.length === 0 ? undefined : reasons,
      'gen_ai.usage.input_tokens': usage.promptTokens,
      'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
      'gen_ai.usage.output_tokens': usage.completionTokens,
      'gen_ai.response.time_to_first_chunk':
        firstTokenMs === undefined ? undefined : (firstTokenMs - startMs) / 1000,
      'chairlift.request.id': id,
      'chairlift.outcome': outcome,
    };
  }
}

function operationOf(
  { kind }: Pick<EndedAnswer, 'kind'>,
  { routeOptions: { url = '' } }: TracedRequest,
): string {
  if (kind === 'embedding') return 'embeddings';
  return /chat|messages|responses/.test(url) ? 'chat' : 'text_completion';
}

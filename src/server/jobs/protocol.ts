// What protocols do differently: their bodies, their prompts, their answers on the wire. Every body is converted
// to one of OpenAI's two: a chat, or a text to continue.

import type { z } from 'zod';
import type { AnswerRequirements } from '../../generation/answer-plan.ts';
import type { ParameterNames } from '../../generation/generation-error.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import type { SampledModel } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import type { UpstreamRequest } from '../../upstream/upstream-request.ts';
import type { BodyRules } from '../http/parse-body.ts';
import type { Framing } from '../http/sse.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import type { RequestContext } from '../request/request-scope.ts';
import type { ServerSettings } from '../settings.ts';
import type { AnswerShape, ShapeOptions } from './answer-shape.ts';
import type { Scoring } from './scored-prompts.ts';

export interface CompletionKind<Body> {
  names(body: Body): ParameterNames;
  maxTokens(body: Body): number | undefined;
  sampling(body: Body, model: SampledModel): SamplingParameters;
  prompts(body: Body, settings: ServerSettings): readonly PromptInput[];
  /** Structured output and tool calls; undefined where the answer is just text. */
  responseFormat(body: Body): AnswerRequirements | undefined;
  echoes(body: Body): boolean;
  expected?(body: Body): string | undefined;
  /** Undefined where the prompt is not scored. */
  scoring?(body: Body): Scoring | undefined;
  /** What an upstream is asked for; absent where answers need a model that is here. Throws where no upstream could be asked. */
  remote?(body: Body, settings: ServerSettings): UpstreamRequest;
}

export interface PromptRoom<Body> {
  /** How many tokens the prompt of a body has. */
  count(body: Body): Promise<number>;
  /** The most that prompt and answer may have together. */
  readonly tokens: number;
}

export interface Protocol<Schema extends z.ZodObject, Body extends SamplingBody> {
  readonly idMark: string;
  readonly rules: BodyRules<Schema>;
  readonly kind: CompletionKind<Body>;
  read(given: z.infer<Schema>, request: RequestContext): Body | Promise<Body>;
  /** Throws where the model cannot do what is asked; returns warnings for the client. Without a model where an upstream has it. */
  check?(given: z.infer<Schema>, model: ServedModel | undefined, request: RequestContext): readonly string[];
  /** The field of a request that needs a model which is here; undefined where an upstream would do. */
  needsLocal?(given: z.infer<Schema>): string | undefined;
  /** What clients call the fields of OpenAI's bodies, where that is something else. */
  readonly fieldNames?: Readonly<Record<string, string>>;
  /** Shortens a conversation, once its model is there; `report` goes to the shape. */
  edit?(
    given: z.infer<Schema>,
    body: Body,
    room: PromptRoom<Body>,
  ): Promise<{ readonly body: Body; readonly report?: object }>;
  /** How long the model stays loaded while it is unused; undefined leaves that as it is. */
  idleMs?(given: z.infer<Schema>, request: RequestContext): number | undefined;
  readonly framing: Framing;
  /** Whether the same tokens make the same events again, so that a client may resume a stream. */
  readonly resumable: boolean;
  shape(options: ShapeOptions, given: z.infer<Schema>, request: RequestContext): AnswerShape;
}

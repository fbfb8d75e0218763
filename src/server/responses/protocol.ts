// OpenAI's Responses as a protocol. Made for one request, because it stores the conversation that it read with the answer.

import { ApiError, badRequest } from '../http/errors.ts';
import { namedEvents } from '../http/sse.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { chatKind } from '../openai/chat.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type { BackgroundRun } from './background-run.ts';
import { type Conversation, readConversation } from './conversation.ts';
import type { KeptResponses, RunningResponses } from './kept-responses.ts';
import { toChatBody } from './read.ts';
import { responsesRules } from './schema.ts';
import { ResponseShape } from './shape.ts';
import { needsLark, toolWarnings } from './tools.ts';
import { truncated } from './truncation.ts';

export const responsesKind: CompletionKind<ChatBody> = {
  ...chatKind,
  names: (body) => ({ ...chatKind.names(body), prompt: 'input', maxTokens: 'max_output_tokens' }),
  // `strict` is not for the model to read.
  prompts: (body, settings) => chatKind.prompts({ ...body, tools: body.tools?.map(withoutStrict) }, settings),
  responseFormat(body) {
    const format = chatKind.responseFormat(body);
    return format && { ...format, names: { responseFormat: 'text.format', tools: 'tools' } };
  },
};

function withoutStrict({
  type,
  function: { strict: _, ...rest },
}: NonNullable<ChatBody['tools']>[number]): NonNullable<ChatBody['tools']>[number] {
  return { type, function: rest };
}

/** `background`: where no client waits for the response. */
export function newResponse(
  kept: KeptResponses,
  running: RunningResponses,
  background?: BackgroundRun,
): Protocol<typeof responsesRules.schema, ChatBody> {
  let conversation: Conversation = { history: [], given: [] };
  return {
    idMark: 'resp_',
    rules: responsesRules,
    kind: responsesKind,
    async read(given, request) {
      if (given.background === true && background === undefined) throw notInBackground();
      conversation = await readConversation(given, request, kept);
      background?.read(given, conversation.given);
      return toChatBody(given, conversation);
    },
    check: ({ tools = [] }) => toolWarnings(tools),
    edit: async ({ truncation }, body, room) => ({
      body: truncation === 'auto' ? await truncated(body, room) : body,
    }),
    needsLocal: ({ truncation, tools = [] }) =>
      truncation === 'auto' ? 'truncation' : needsLark(tools) ? 'tools' : undefined,
    fieldNames: {
      messages: 'input',
      max_tokens: 'max_output_tokens',
      response_format: 'text.format',
      reasoning_effort: 'reasoning.effort',
      logprobs: 'include',
    },
    framing: namedEvents,
    // Items get new ids each time, but for those that no client waits for.
    resumable: background !== undefined,
    shape(options, given, { request, caller: { keyId } }) {
      return new ResponseShape(options, given, {
        conversation,
        keyId,
        kept,
        running,
        log: request.log,
        background,
      });
    },
  };
}

function notInBackground(): ApiError {
  return badRequest(
    'background',
    'is not possible in a batch, which waits for no client anyway; leave it out',
  );
}

/** Error messages about `messages` name `input`, which they were made from. */
export function responsesErrorBody(error: ApiError): object {
  const { param } = error;
  // The client itself sent `messages`, which is the error.
  if (!param?.startsWith('messages') || error.code === 'unsupported_parameter') return error.body();
  const message = error.message.replace(param, 'input');
  return new ApiError(error.status, message, { param: 'input', code: error.code }).body();
}

// Ollama's ways to ask for an answer, as protocols of the server.

import { roomOf } from '../../generation/context-room.ts';
import { type ParameterNames, wireNames } from '../../generation/parameter-names.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { badRequest } from '../http/errors.ts';
import { jsonLines } from '../http/sse.ts';
import { type CompletionKind, chatKind, type Protocol, textKind, type Visit } from '../jobs/protocol.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type { TextBody } from '../openai/schemas/text.ts';
import type { Caller } from '../request/auth.ts';
import { decidesStay, idleMsOf } from './keep-alive.ts';
import { findModel } from './names.ts';
import { optionNames } from './options.ts';
import { readChat, readGenerate, readRaw } from './read.ts';
import { type ChatGiven, chatRules, type GenerateGiven, generateRules } from './schema.ts';
import { inMessage, inResponse, ollamaShape } from './shape.ts';

type Given = ChatGiven | GenerateGiven;

const namesWith = (prompt: string): ParameterNames => ({ ...wireNames, ...optionNames, prompt });

/** A kind whose refusals name what clients of Ollama wrote. */
function renamed<Body>(kind: CompletionKind<Body>, prompt: string): CompletionKind<Body> {
  return {
    ...kind,
    names: () => namesWith(prompt),
    wish(body) {
      const wish = kind.wish(body);
      return wish && { ...wish, names: { structure: 'format', tools: 'tools' } };
    },
  };
}

const rawKind: CompletionKind<TextBody> = {
  ...renamed(textKind, 'prompt'),
  // Without a limit an answer ends where the model ends it.
  maxTokens: ({ max_tokens }) => max_tokens,
};

const common = {
  framing: jsonLines,
  resumable: false,
  check: (given: Given, model: ServedModel, visit: Visit) => [
    ...thinkingNotes(given, model),
    ...roomNotes(given, model),
    ...stayNotes(given, visit),
  ],
  idleMs: ({ keep_alive }: Given, { request }: Visit) => idleMsOf(keep_alive, request.caller as Caller),
};

export const chatProtocol: Protocol<typeof chatRules.schema, ChatBody> = {
  ...common,
  idMark: 'ollama-chat-',
  rules: chatRules,
  kind: renamed(chatKind, 'messages'),
  read: (given, { context }) => readChat(given, findModel(context, given.model).name),
  shape: (options, { model }) => ollamaShape(options, model, inMessage),
};

const generateIds = { idMark: 'ollama-gen-', rules: generateRules };

export const generateProtocol: Protocol<typeof generateRules.schema, ChatBody> = {
  ...common,
  ...generateIds,
  kind: renamed(chatKind, 'prompt'),
  read: (given, { context }) => readGenerate(given, findModel(context, given.model).name),
  shape: (options, { model }) => ollamaShape(options, model, inResponse),
};

export const rawProtocol: Protocol<typeof generateRules.schema, TextBody> = {
  ...common,
  ...generateIds,
  kind: rawKind,
  read: (given, { context }) => readRaw(given, findModel(context, given.model).name),
  shape: (options, { model }) => ollamaShape(options, model, inResponse),
};

/** What a template cannot do is not asked of it in silence. */
function thinkingNotes({ think, model: name }: Given, { template }: ServedModel): string[] {
  if (think === undefined || template === undefined) return [];
  if (!template.format.format.reasons) {
    if (think === false) return [];
    throw badRequest('think', `the model '${name}' does not think`, 'unsupported_parameter');
  }
  const knows = (word: RegExp) => word.test(template.source);
  if (typeof think === 'string') {
    return knows(/\breasoning_effort\b/) ? [] : ['think: the model knows no levels; it thinks its own way'];
  }
  return knows(/\b(enable_thinking|thinking)\b/)
    ? []
    : ['think: the model cannot be told whether to think; it does as it was made to'];
}

/** A prompt that does not fit is refused in any case: what is larger than the model promises nothing false. */
export function roomNotes({ options }: Pick<Given, 'options'>, model: ServedModel): string[] {
  const room = roomOf(model);
  const wanted = options?.num_ctx ?? 0;
  return wanted > room ? [`options.num_ctx: this model takes ${room} tokens, not ${wanted}`] : [];
}

export function stayNotes(
  { keep_alive }: Pick<Given, 'keep_alive'>,
  { request }: Pick<Visit, 'request'>,
): string[] {
  if (keep_alive === undefined || decidesStay(request.caller as Caller)) return [];
  return ['keep_alive: only admin keys decide how long a model stays'];
}

// Bodies of Ollama in the words of OpenAI's completions.

import { hasPictures } from '../../generation/picture-parts.ts';
import { badRequest } from '../http/errors.ts';
import { base64Image } from '../images/image-part.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type { TextBody } from '../openai/schemas/completions.ts';
import type { CreatedModel } from './created-models.ts';
import { samplingFrom } from './options.ts';
import { templatedPrompt } from './prompt-template.ts';
import type { ChatGiven, GenerateGiven, Message } from './schema.ts';

type ChatMessage = ChatBody['messages'][number];
type Shared = Omit<ChatBody, 'messages'>;

/** What a created model sets counts where a request says nothing. */
export function withParameters<Given extends ChatGiven | GenerateGiven>(
  given: Given,
  created: CreatedModel | undefined,
): Given {
  return created?.parameters === undefined
    ? given
    : { ...given, options: { ...created.parameters, ...given.options } };
}

export function readChat(given: ChatGiven, model: string, created?: CreatedModel): ChatBody {
  const { messages: said = [], tools } = given;
  const messages = [
    ...openingOf(
      created,
      said.some(({ role }) => role === 'system'),
    ),
    ...said,
  ];
  return {
    ...readShared(given, model),
    messages: readMessages(messages),
    tools,
    continue_final_message: isBegun(messages.at(-1)) || undefined,
  };
}

function openingOf(created: CreatedModel | undefined, hasSystem: boolean): Message[] {
  const { system, messages = [] } = created ?? {};
  return [
    ...(system && !hasSystem ? [{ role: 'system' as const, content: system }] : []),
    ...(messages as Message[]),
  ];
}

function isBegun({ role, content, tool_calls: calls }: Partial<Message> = {}): boolean {
  return role === 'assistant' && (content ?? '') !== '' && (calls ?? []).length === 0;
}

export interface GenerateBody extends ChatBody {
  readonly context: readonly number[] | undefined;
}

export function readGenerate(given: GenerateGiven, model: string, created?: CreatedModel): GenerateBody {
  const { system, prompt = '', images, context } = given;
  // Where the prompt goes on from an answer, it has begun already.
  const opening = context === undefined || context.length === 0 ? openingOf(created, Boolean(system)) : [];
  const messages: ChatMessage[] = [
    ...(system ? [{ role: 'system' as const, content: system }] : []),
    ...readMessages(opening),
    { role: 'user', content: seenContent(prompt, images, 'images') },
  ];
  return { ...readShared(given, model), messages, context };
}

/** The prompt is used without a template, or as the text before a gap. */
export function readRaw(given: GenerateGiven, model: string, how?: string): TextBody {
  const { logprobs, top_logprobs: top = 0, prompt = '', suffix = '', system, images, think = false } = given;
  const untemplated = how ?? (suffix === '' ? 'raw' : 'suffix');
  if (images && images.length > 0) {
    throw badRequest(
      'images',
      `are not possible together with ${untemplated}: the template says where they are`,
    );
  }
  if (given.context !== undefined && given.context.length > 0) {
    throw badRequest('context', `is not possible together with ${untemplated}: give the whole prompt`);
  }
  if (system) throw badRequest('system', `is not possible together with ${untemplated}`);
  if (think !== false) {
    throw badRequest('think', `is not possible together with ${untemplated}: it is a matter of the template`);
  }
  return { ...readCommon(given, model), prompt, suffix, logprobs: logprobs === true ? top : undefined };
}

/** The messages written by a template that takes the place of the model's own. */
export function readTemplated(
  given: ChatGiven | GenerateGiven,
  model: string,
  created?: CreatedModel,
): TextBody {
  const template = templateOf(given, created) ?? '';
  if ('tools' in given && (given.tools ?? []).length > 0) {
    throw badRequest('tools', 'are not possible with a template: calls in its answers could not be read');
  }
  const { messages } =
    'messages' in given
      ? readChat(given, model, created)
      : readGenerate(given as GenerateGiven, model, created);
  if (hasPictures(messages)) {
    throw badRequest('images', "are not possible with a template in place of the model's own");
  }
  const turns = messages.map(({ role, content }) => ({ role, content: String(content ?? '') }));
  return readRaw(
    { ...given, system: undefined, prompt: templatedPrompt(template, turns), suffix: '' },
    model,
    'a template',
  );
}

export function templateOf(
  given: ChatGiven | GenerateGiven,
  created: CreatedModel | undefined,
): string | undefined {
  return ('template' in given ? given.template : undefined) || created?.template || undefined;
}

function readShared(given: ChatGiven | GenerateGiven, model: string): Shared {
  const { logprobs, top_logprobs } = given;
  return {
    ...readCommon(given, model),
    logprobs,
    top_logprobs,
    chat_template_kwargs: thinkingVariables(given.think),
  };
}

function readCommon({ stream = true, format, options }: ChatGiven | GenerateGiven, model: string) {
  return { ...samplingFrom(options), model, stream, response_format: structureFrom(format) };
}

function structureFrom(format: ChatGiven['format']): ChatBody['response_format'] {
  if (format === undefined || format === '') return undefined;
  return format === 'json'
    ? { type: 'json_object' }
    : { type: 'json_schema', json_schema: { schema: format as Record<string, unknown> } };
}

/** Templates have several names for it; all of them are set. */
function thinkingVariables(think: ChatGiven['think']): Record<string, unknown> | undefined {
  if (think === undefined) return undefined;
  const thinks = think !== false;
  return {
    enable_thinking: thinks,
    thinking: thinks,
    ...(typeof think === 'string' ? { reasoning_effort: think } : {}),
  };
}

/** Images come before the text, as Ollama has them. */
function seenContent(
  text: string,
  images: readonly string[] | null | undefined,
  where: string,
): ChatMessage['content'] {
  if (!images || images.length === 0) return text;
  const shown = images.map((data, at) => base64Image(data, `${where}[${at}]`));
  return text === '' ? shown : [...shown, { type: 'text', text }];
}

interface OpenCall {
  readonly id: string;
  readonly name: string;
}

/** Gives calls ids, which some templates need; a result belongs to the first open call of its name. */
export function readMessages(messages: readonly Message[]): ChatMessage[] {
  let count = 0;
  let open: OpenCall[] = [];
  return messages.map((message, at) => {
    const { role, content, thinking, images, tool_calls: calls, tool_name, tool_call_id, ...rest } = message;
    const named = (calls ?? []).map((call) => ({
      id: call.id ?? `call${String(++count).padStart(5, '0')}`,
      type: 'function',
      function: { name: call.function.name, arguments: call.function.arguments ?? {} },
    }));
    open = [...open, ...named.map(({ id, function: { name } }) => ({ id, name }))];
    const common = { ...rest, role, content: seenContent(content ?? '', images, `messages[${at}].images`) };
    if (role === 'tool') {
      const answered = open.find(({ id, name }) => (tool_call_id ? id === tool_call_id : name === tool_name));
      const call = answered ?? (tool_call_id || tool_name ? undefined : open[0]);
      open = open.filter((one) => one !== call);
      const id = tool_call_id ?? call?.id;
      const name = tool_name ?? call?.name;
      return { ...common, ...(name ? { name } : {}), ...(id ? { tool_call_id: id } : {}) };
    }
    return {
      ...common,
      // Templates have two names for it.
      ...(thinking ? { reasoning_content: thinking, thinking } : {}),
      ...(named.length > 0 ? { tool_calls: named } : {}),
    };
  });
}

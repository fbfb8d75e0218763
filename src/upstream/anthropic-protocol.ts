// Anthropic's messages as an upstream speaks them.

import { anthropicMessages } from './anthropic-messages.ts';
import { AnthropicReader } from './anthropic-reader.ts';
import { isObject, type JsonObject } from './json.ts';
import type { Refusal, UpstreamProtocol } from './upstream-request.ts';

const carried = new Set([
  ...['messages', 'tools', 'tool_choice', 'parallel_tool_calls', 'continue_final_message'],
  ...['temperature', 'top_p', 'top_k', 'stop', 'reasoning_effort', 'response_format'],
]);

const VERSION = '2023-06-01';

export const anthropicProtocol: UpstreamProtocol = {
  refusal({ kind, fields, maxTokens }, extra) {
    const cannot = (field: string): Refusal => ({
      field,
      problem: 'cannot be carried by Anthropic’s protocol',
    });
    if (kind === 'text') return cannot('prompt');
    const unknown = Object.entries(fields).find(
      ([name, value]) => !carried.has(name) && !extra.includes(name) && !isBudget(name, value),
    );
    if (unknown !== undefined) return cannot(unknown[0]);
    const { tool_choice: choice, response_format: format } = fields;
    if (isObject(choice) && choice.type !== 'function') return cannot('tool_choice');
    if (isObject(format) && format.type !== 'json_schema') return cannot('response_format');
    if (maxTokens === undefined) return { field: 'max_tokens', problem: 'is needed by Anthropic’s protocol' };
    const messages = anthropicMessages(fields.messages as readonly JsonObject[]);
    return messages.ok ? undefined : cannot(messages.field);
  },
  path: () => '/messages',
  headers: (key) => ({ 'anthropic-version': VERSION, ...(key === undefined ? {} : { 'x-api-key': key }) }),
  body({ fields, maxTokens }, { model }) {
    const { messages, tools, tool_choice, parallel_tool_calls, stop, ...others } = fields;
    const {
      reasoning_effort,
      response_format,
      continue_final_message: _,
      chat_template_kwargs,
      ...rest
    } = others;
    const read = anthropicMessages(messages as readonly JsonObject[]);
    if (!read.ok) throw new Error(`${read.field} was not refused`);
    return {
      model,
      ...rest,
      max_tokens: maxTokens,
      ...(read.system === '' ? {} : { system: read.system }),
      messages: read.messages,
      ...(tools === undefined ? {} : { tools: (tools as readonly JsonObject[]).map(toolOf) }),
      ...choiceOf(tool_choice, parallel_tool_calls),
      ...(stop === undefined ? {} : { stop_sequences: [stop].flat() }),
      ...thinkingOf(reasoning_effort, chat_template_kwargs),
      ...outputOf(reasoning_effort, response_format),
      stream: true,
    };
  },
  reader: () => new AnthropicReader(),
  embeddingsPath: undefined,
};

/** The one variable of templates that has a place here. */
function isBudget(name: string, value: unknown): boolean {
  return (
    name === 'chat_template_kwargs' && isObject(value) && Object.keys(value).join() === 'thinking_budget'
  );
}

function toolOf({ function: called }: JsonObject): JsonObject {
  const { name, description, parameters = { type: 'object', properties: {} }, strict } = called as JsonObject;
  return {
    name,
    ...(description === undefined || description === null ? {} : { description }),
    input_schema: parameters,
    ...(strict === true ? { strict } : {}),
  };
}

function choiceOf(choice: unknown, parallel: unknown): JsonObject {
  if (choice === undefined && parallel === undefined) return {};
  if (choice === 'none') return { tool_choice: { type: 'none' } };
  const type =
    choice === 'required' ? { type: 'any' } : isObject(choice) ? namedTool(choice) : { type: 'auto' };
  return { tool_choice: { ...type, ...(parallel === false ? { disable_parallel_tool_use: true } : {}) } };
}

function namedTool({ function: called }: JsonObject): JsonObject {
  return { type: 'tool', name: isObject(called) ? called.name : undefined };
}

function thinkingOf(effort: unknown, variables: unknown): JsonObject {
  const budget = isObject(variables) ? variables.thinking_budget : undefined;
  if (budget !== undefined) return { thinking: { type: 'enabled', budget_tokens: budget } };
  if (effort === undefined) return {};
  return { thinking: { type: effort === 'none' ? 'disabled' : 'adaptive' } };
}

const efforts: Readonly<Record<string, string>> = { minimal: 'low' };

function outputOf(effort: unknown, format: unknown): JsonObject {
  const level = typeof effort === 'string' && effort !== 'none' ? (efforts[effort] ?? effort) : undefined;
  const schema = isObject(format) && isObject(format.json_schema) ? format.json_schema.schema : undefined;
  if (level === undefined && schema === undefined) return {};
  return {
    output_config: {
      ...(level === undefined ? {} : { effort: level }),
      ...(schema === undefined ? {} : { format: { type: 'json_schema', schema } }),
    },
  };
}

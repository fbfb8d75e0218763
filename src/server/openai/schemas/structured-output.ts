// Structured output: `response_format` of OpenAI, `structured_outputs` and its older names of vLLM, and the plain fields of
// llama.cpp.

import { z } from 'zod';
import {
  choiceFormat,
  grammarFormat,
  onlyResponseFormat,
  type ResponseFormat,
  regexFormat,
  schemaFormat,
} from '../../../generation/response-format.ts';
import { badRequest } from '../../http/errors.ts';

const jsonSchema = z.union([z.record(z.string(), z.unknown()), z.boolean(), z.string()]);
const choices = z.array(z.string()).min(1);

export const structuredOutputFields = {
  response_format: z
    .looseObject({
      type: z.enum(['text', 'json_object', 'json_schema']),
      json_schema: z
        .looseObject({
          schema: z.record(z.string(), z.unknown()).optional(),
          strict: z.boolean().nullish(),
        })
        .optional(),
      schema: z.record(z.string(), z.unknown()).optional(),
    })
    .meta({ description: 'What the answer may be: text, a JSON object, or JSON that a schema describes.' })
    .optional(),
  structured_outputs: z
    .strictObject({
      json: jsonSchema.optional(),
      regex: z.string().optional(),
      choice: choices.optional(),
      grammar: z.string().optional(),
      json_object: z.boolean().optional(),
    })
    .meta({ description: 'One of json (a schema), regex, choice, grammar (GBNF) and json_object.' })
    .optional(),
  guided_json: jsonSchema.optional(),
  guided_regex: z.string().optional(),
  guided_choice: choices.optional(),
  guided_grammar: z.string().optional(),
  json_schema: jsonSchema.optional(),
  regex: z.string().optional(),
  grammar: z.string().meta({ description: 'A grammar in GBNF.' }).optional(),
};

type StructuredOutputBody = z.infer<z.ZodObject<typeof structuredOutputFields>>;

export function structuredOutputOf(body: StructuredOutputBody): ResponseFormat | undefined {
  return onlyResponseFormat([formatOf(body.response_format), ...outputsOf(body), ...plainFields(body)]);
}

function formatOf(format: StructuredOutputBody['response_format']): ResponseFormat | undefined {
  const name = 'response_format';
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return schemaFormat(name, format.schema ?? { type: 'object' }, false);
  const schema = format.json_schema?.schema ?? format.schema;
  if (schema === undefined)
    throw badRequest(`${name}.json_schema.schema`, 'is missing', 'missing_required_parameter');
  return schemaFormat(name, schema, format.json_schema?.strict === true);
}

function outputsOf({ structured_outputs: given }: StructuredOutputBody): (ResponseFormat | undefined)[] {
  if (given === undefined) return [];
  const name = 'structured_outputs';
  const { json, regex, choice, grammar, json_object: anyObject } = given;
  return [
    json === undefined ? undefined : schemaFormat(`${name}.json`, json, false),
    regex === undefined ? undefined : regexFormat(`${name}.regex`, regex),
    choice === undefined ? undefined : choiceFormat(`${name}.choice`, choice),
    grammar === undefined ? undefined : grammarFormat(`${name}.grammar`, grammar),
    anyObject === true ? schemaFormat(`${name}.json_object`, { type: 'object' }, false) : undefined,
  ];
}

function plainFields(body: StructuredOutputBody): (ResponseFormat | undefined)[] {
  const { guided_json, guided_regex, guided_choice, guided_grammar, json_schema, regex, grammar } = body;
  return [
    guided_json === undefined ? undefined : schemaFormat('guided_json', guided_json, false),
    guided_regex === undefined ? undefined : regexFormat('guided_regex', guided_regex),
    guided_choice === undefined ? undefined : choiceFormat('guided_choice', guided_choice),
    guided_grammar === undefined ? undefined : grammarFormat('guided_grammar', guided_grammar),
    json_schema === undefined ? undefined : schemaFormat('json_schema', json_schema, false),
    regex === undefined ? undefined : regexFormat('regex', regex),
    grammar === undefined ? undefined : grammarFormat('grammar', grammar),
  ];
}

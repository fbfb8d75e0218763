// The OpenAPI document, made from the route table and so from the very schemas that requests are checked against.

import { z } from 'zod';
import { errorSchema } from './openai/schemas/answers.ts';
import { requestExamples } from './request-examples.ts';
import type { Route } from './route.ts';

export function openApiDocument(version: string, routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    if (route.summary === undefined) continue;
    const path = pathOf(route.url);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describe(route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Chairlift', version, description: 'A self-hosted server for language models.' },
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer' },
        header: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
    paths,
  };
}

export function pathOf(url: string): string {
  return url.replace('*', '{id}').replace(/:(\w+)/, '{$1}');
}

function describe(route: Route): object {
  const { url, access, summary, description, body, bodyType, error = errorSchema } = route;
  const parameter = /\{(\w+)\}/.exec(pathOf(url))?.[1];
  const needsKey = access === 'key' || access === 'admin';
  return {
    summary,
    ...(description === undefined ? {} : { description }),
    ...(needsKey ? { security: [{ key: [] }, { header: [] }] } : {}),
    ...(parameter === undefined
      ? {}
      : { parameters: [{ name: parameter, in: 'path', required: true, schema: { type: 'string' } }] }),
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: content(body, 'input', bodyType, requestExamples[url]) } }),
    responses: {
      200: { description: 'The answer', ...answerContent(route) },
      default: { description: 'What is wrong', content: content(error, 'output') },
    },
  };
}

function answerContent({ answer, chunk, mediaType, chunkType = 'text/event-stream' }: Route): object {
  if (mediaType !== undefined) return { content: { [mediaType]: { schema: { type: 'string' } } } };
  if (answer === undefined) return {};
  const events = chunk === undefined ? {} : { [chunkType]: { schema: schemaOf(chunk, 'output') } };
  return { content: { ...content(answer, 'output'), ...events } };
}

function content(
  schema: z.ZodType,
  io: 'input' | 'output',
  type = 'application/json',
  example?: object,
): object {
  return { [type]: { schema: schemaOf(schema, io), ...(example === undefined ? {} : { example }) } };
}

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
}

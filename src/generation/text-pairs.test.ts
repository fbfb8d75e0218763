import { describe, expect, it } from 'vitest';
import { chatTemplate } from '../text/chat-template.ts';
import type { Classifier } from './embedding.ts';
import { pairInput } from './text-pairs.ts';

const pair = { query: 'Who is awake?', document: 'The {query} owl.' };
const classifier = (pairs: Classifier['pairs']): Classifier => ({
  pooling: 'last',
  labels: ['yes'],
  activation: 'sigmoid',
  pairs,
});
const untemplated = { template: undefined };
const written = classifier({ kind: 'template', template: '{instruction}|{query}|{document}' });

describe('a query and a document', () => {
  it('are two texts of a model that reads both, the second with ids of its own', () => {
    const joined = classifier({ kind: 'joined', secondText: 100 });
    expect(pairInput(pair, untemplated, joined, { cuts: true })).toEqual({
      kind: 'pair',
      first: pair.query,
      second: pair.document,
      secondText: 100,
      cuts: true,
    });
    expect(() => pairInput(pair, untemplated, joined, { instruction: 'x' })).toThrow('instruction');
  });

  it('go into the model’s prompt as they are, whatever they spell', () => {
    const { text } = pairInput(pair, untemplated, written, {}) as { text: string };
    expect(text).toMatch(/^Given a web search query, .*\|Who is awake\?\|The \{query\} owl\.$/);
    const asked = pairInput(pair, untemplated, written, { instruction: 'Find birds' });
    expect(asked).toEqual({ kind: 'text', bos: false, text: 'Find birds|Who is awake?|The {query} owl.' });
  });

  it('are messages of their own where the chat template knows of them', () => {
    const source = `{%- for message in messages -%}{%- if message.role == 'query' -%}Q:{{ message.content }};{%- elif message.role == "document" -%}D:{{ message.content }};{%- else -%}S:{{ message.content }};{%- endif -%}{%- endfor -%}`;
    const template = chatTemplate({ template: source, specialTokens: {} });
    expect(pairInput(pair, { template }, written, { instruction: 'Find birds' })).toEqual({
      kind: 'text',
      bos: false,
      text: 'S:Find birds;Q:Who is awake?;D:The {query} owl.;',
    });
    const other = chatTemplate({ template: '{{ messages[0].content }}', specialTokens: {} });
    expect(pairInput(pair, { template: other }, written, {})).toMatchObject({ kind: 'text', bos: false });
  });

  it('are refused an instruction without a place, and a cut within a prompt that goes on', () => {
    const fixed = classifier({ kind: 'template', template: '{query}|{document}' });
    expect(() => pairInput(pair, untemplated, fixed, { instruction: 'x' })).toThrow('no place');
    expect(() => pairInput(pair, untemplated, fixed, { cuts: true })).toThrow('truncate');
  });
});

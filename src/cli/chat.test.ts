import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { regexFormat } from '../generation/response-format.ts';
import { type AnswerEvent, type ChatAnswers, localAnswers, serverAnswers } from './chat-answers.ts';
import { ChatSession } from './chat-session.ts';
import { readEvents } from './server-client.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

function serve(listener: RequestListener): Promise<string> {
  const started = createServer(listener);
  server = started;
  return new Promise((resolve) => {
    started.listen(0, '127.0.0.1', () =>
      resolve(`http://127.0.0.1:${(started.address() as AddressInfo).port}`),
    );
  });
}

async function chat(answers: ChatAnswers, lines: string) {
  const input = new PassThrough();
  const [output, notices] = [new PassThrough({ encoding: 'utf8' }), new PassThrough({ encoding: 'utf8' })];
  const session = new ChatSession({
    answers,
    input,
    output,
    notices,
    system: undefined,
    nowMs: () => performance.now(),
  });
  input.end(lines);
  const ok = await session.run();
  return { ok, shown: output.read() ?? '', noted: notices.read() ?? '' };
}

interface Asked {
  readonly body: {
    readonly messages: readonly { readonly content: string }[];
    readonly [name: string]: unknown;
  };
  readonly key: string | undefined;
}

/** Answers each question by a function, as server-sent events. */
function completions(
  asked: Asked[],
  answer: (response: ServerResponse, question: string) => void,
): RequestListener {
  return (request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (piece) => {
      text += piece;
    });
    request.on('end', () => {
      const body = JSON.parse(text) as Asked['body'];
      asked.push({ body, key: request.headers.authorization });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      answer(response, body.messages.at(-1)?.content ?? '');
    });
  };
}

const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
const piece = (content: string) =>
  event({ choices: [{ delta: { content }, finish_reason: null }], usage: null });

describe('a chat with a server', () => {
  it('streams answers, sends the whole conversation, and knows the usage', async () => {
    const asked: Asked[] = [];
    const listener = completions(asked, (response, question) => {
      response.write(': keep-alive\n\n');
      response.write(event({ choices: [{ delta: { role: 'assistant', content: '' } }] }));
      response.write(piece(`You said ${question}: `));
      response.write(piece('grüß Gott 🎿'));
      response.write(event({ choices: [{ delta: {}, finish_reason: 'length' }] }));
      const usage = { prompt_tokens: 20, completion_tokens: 7, prompt_tokens_details: { cached_tokens: 16 } };
      response.write(event({ choices: [], usage }));
      response.end('data: [DONE]\n\n');
    });
    const url = await serve(listener);
    const answers = serverAnswers({ url, key: 'secret' }, 'big', { temperature: 0.5, maxTokens: 9 });
    const { ok, shown, noted } = await chat(answers, 'one\ntwo\n/stats\n');
    expect(ok).toBe(true);
    expect(shown).toBe('You said one: grüß Gott 🎿\nYou said two: grüß Gott 🎿\n');
    expect(noted).toMatch(
      /20 prompt tokens \(16 cached\).*7 answer tokens.*ended by length\nin all \(2\): 40 prompt/s,
    );
    expect(asked[1]).toEqual({
      key: 'Bearer secret',
      body: {
        model: 'big',
        messages: [
          { role: 'user', content: 'one' },
          { role: 'assistant', content: 'You said one: grüß Gott 🎿' },
          { role: 'user', content: 'two' },
        ],
        stream: true,
        stream_options: { include_usage: true },
        temperature: 0.5,
        max_tokens: 9,
      },
    });
  });

  it('asks for a structure, and tells thoughts from the answer', async () => {
    const asked: Asked[] = [];
    const listener = completions(asked, (response) => {
      response.write(event({ choices: [{ delta: { reasoning_content: 'Hm.' } }] }));
      response.end(`${piece('Yes')}data: [DONE]\n\n`);
    });
    const answers = serverAnswers({ url: await serve(listener) }, undefined, {}, regexFormat('--regex', 'Y'));
    const events: AnswerEvent[] = [];
    const unstopped = new AbortController().signal;
    for await (const one of answers.answer([{ role: 'user', content: 'Hi' }], unstopped)) events.push(one);
    expect(events.map((one) => (one.kind === 'end' ? one.reason : [one.kind, one.text]))).toEqual([
      ['reasoning', 'Hm.'],
      ['text', 'Yes'],
      'stop',
    ]);
    expect(asked[0]?.body.structured_outputs).toEqual({ regex: 'Y' });
  });

  it('hangs up when the answer is stopped', async () => {
    let left = false;
    const listener = completions([], (response) => {
      response.write(piece('Once upon'));
      response.on('close', () => {
        left = true;
      });
    });
    const stop = new AbortController();
    const pieces: string[] = [];
    const answers = serverAnswers({ url: await serve(listener) }, undefined, {});
    for await (const one of answers.answer([{ role: 'user', content: 'Hi' }], stop.signal)) {
      pieces.push(one.kind === 'text' ? one.text : one.kind);
      stop.abort();
    }
    expect(pieces).toEqual(['Once upon']);
    while (!left) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it.each([
    [
      'an error in the stream',
      (response: ServerResponse) => response.end(event({ error: { message: 'too long' } })),
      'the server gave up: too long',
    ],
    [
      'an early end',
      (response: ServerResponse) => response.end(piece('Half')),
      'ended before the answer did',
    ],
    [
      'a lost connection',
      (response: ServerResponse) => void response.write(piece('Half'), () => response.destroy()),
      'was lost',
    ],
    ['what is no event', (response: ServerResponse) => response.end('data: <html>\n\n'), 'check --url'],
  ])('tells of %s and goes on', async (_name, answer, message) => {
    const { ok, noted } = await chat(
      serverAnswers({ url: await serve(completions([], answer)) }, undefined, {}),
      'Hi\n',
    );
    expect(ok).toBe(false);
    expect(noted).toContain(message);
  });

  it('tells of a refusal, and of a server that is not there', async () => {
    const url = await serve((_request, response) =>
      response.writeHead(401).end('{"error":{"message":"an API key is needed"}}'),
    );
    const refused = await chat(serverAnswers({ url }, undefined, {}), 'Hi\n');
    expect(refused).toMatchObject({
      ok: false,
      noted: 'the server refused (401): an API key is needed; give a key with --key\n',
    });
    const absent = await chat(serverAnswers({ url: 'http://127.0.0.1:9' }, undefined, {}), 'Hi\n');
    expect(absent.noted).toContain("start one with 'chairlift serve'");
  });
});

describe('a chat with a model in this process', () => {
  const options = { sampling: { temperature: 0 }, contextTokens: 4096, backend: undefined };

  it('answers, remembers, and computes only what is new', async () => {
    const answers = await localAnswers(embeddedModelPath, options);
    const { ok, shown, noted } = await chat(answers, 'What is 347 + 586?\nAnd plus 1?\n/stats\n');
    await answers.close();
    expect({ ok, shown }).toEqual({ ok: true, shown: '347 + 586 = 933.\n933 + 1 = 934.\n' });
    expect(noted).toMatch(/\(32 cached\).*ended by stop/);
  });

  it('answers in a structure', async () => {
    const structure = regexFormat('--regex', '[0-9]+ apples');
    const answers = await localAnswers(embeddedModelPath, { ...options, structure });
    const { ok, shown } = await chat(answers, 'What is 1 + 1?\n');
    await answers.close();
    expect(ok).toBe(true);
    expect(shown).toMatch(/^\d+ apples\n$/);
  });

  it('stops in the middle of an answer, and answers again', async () => {
    const answers = await localAnswers(embeddedModelPath, options);
    const stop = new AbortController();
    const question = {
      role: 'user',
      content: 'Tell me a story about a fox named Milo in the forest.',
    } as const;
    const kinds: string[] = [];
    for await (const { kind } of answers.answer([question], stop.signal)) {
      kinds.push(kind);
      if (kinds.length === 5) stop.abort();
    }
    expect(kinds).not.toContain('end');
    expect(kinds.length).toBeLessThan(60);
    expect((await chat(answers, 'What is 1 + 1?\n')).shown).toBe('1 + 1 = 2.\n');
    await answers.close();
  });

  it('says when the conversation is too long, and how to go on', async () => {
    const answers = await localAnswers(embeddedModelPath, { ...options, contextTokens: 64 });
    const { ok, shown, noted } = await chat(answers, `${'again and '.repeat(80)}\nWhat is 1 + 1?\n`);
    await answers.close();
    expect(ok).toBe(false);
    expect(noted).toMatch(/context length is 64 tokens.*the prompt has \d+ tokens.*; \/clear starts anew/);
    expect(shown).toBe('1 + 1 = 2.\n');
  });
});

describe('server-sent events', () => {
  it('are the same however the bytes are cut', async () => {
    const bytes = Buffer.from(
      ': hello\n\ndata: {"a":"é🎿"}\n\nevent: x\r\ndata: one\r\ndata:two\r\n\r\ndata: [DONE]\n\n',
    );
    for (let size = 1; size <= bytes.length; size++) {
      const cut = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        Uint8Array.from(bytes.subarray(at * size, (at + 1) * size)),
      );
      const read: string[] = [];
      for await (const data of readEvents(ReadableStream.from(cut))) read.push(data);
      expect(read).toEqual(['{"a":"é🎿"}', 'one\ntwo', '[DONE]']);
    }
  });
});

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type SeeingServer, seeingServer } from '../../../test/support/seeing-server.ts';
import { hasTestdata, testdata } from '../../../test/support/testdata.ts';
import { IN_MEMORY } from '../../store/database.ts';
import { FileStore } from '../../store/file-store.ts';
import { openDatabase } from '../../store/open-database.ts';
import { ResponseStore } from '../../store/response-store.ts';
import type { ConversationItem } from '../responses/items.ts';

describe.skipIf(!hasTestdata)('images in other protocols', () => {
  let server: SeeingServer;
  let data: string;
  let database: Awaited<ReturnType<typeof openDatabase>>;
  beforeAll(async () => {
    data = readFileSync(testdata('vision', 'images', 'tiny-31x17.png')).toString('base64');
    database = await openDatabase(IN_MEMORY);
    const responses = new ResponseStore<ConversationItem>(database, { keepMs: 1e9, maxBytes: 1e9 }, () => {});
    server = await seeingServer({ responses, files: new FileStore(database, () => {}) });
  });
  afterAll(async () => {
    await server.close();
    database.close();
  });
  beforeEach(() => void server.requests.splice(0));

  const url = () => `data:image/png;base64,${data}`;
  /** Of the last request: how many tokens stand for each image, and the text around them. */
  const shown = () => {
    const { prompt = new Int32Array(), images } = server.requests.at(-1) ?? {};
    return {
      counts: images?.images.map(({ places }) => places.length) ?? [],
      text: server.tokenizer.decode(prompt, { special: true }).replace(/(<\|image_pad\|>)+/g, '[image]'),
    };
  };

  async function upload(): Promise<string> {
    const form = new FormData();
    form.set('purpose', 'vision');
    form.set('file', new Blob([Buffer.from(data, 'base64')]), 'tiny.png');
    const { headers, body } = new Response(form) as Response & { headers: Headers };
    const payload = Buffer.from(await new Response(body).arrayBuffer());
    const answer = await server.app.inject({
      method: 'POST',
      url: '/v1/files',
      payload,
      headers: { 'content-type': headers.get('content-type') ?? '' },
    });
    expect(answer.statusCode, answer.body).toBe(200);
    return (answer.json() as { id: string }).id;
  }

  describe("Anthropic's messages", () => {
    const image = () => ({ type: 'image', source: { type: 'base64', media_type: 'image/png', data } });
    const ask = (messages: unknown, path = '') =>
      server.post(`/v1/messages${path}`, { model: 'eyes', max_tokens: 2, messages });

    it('have images with text between them', async () => {
      const content = [{ type: 'text', text: 'one' }, image(), { type: 'text', text: 'two' }, image()];
      const { status, body } = await ask([{ role: 'user', content }]);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(shown().counts).toEqual([6, 6]);
      expect(shown().text).toMatch(/one[^a-z]*vision_start[^a-z]*image.*two.*image/s);
    });

    it('have images in results of tools', async () => {
      const { status, body } = await ask([
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_a', name: 'see', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_a', content: [image()] }] },
      ]);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(shown().counts).toEqual([6]);
    });

    it('have files of the key as images', async () => {
      const source = { type: 'file', file_id: await upload() };
      const { status, body } = await ask([{ role: 'user', content: [{ type: 'image', source }] }]);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(shown().counts).toEqual([6]);
    });

    it('count the tokens of images', async () => {
      const messages = [{ role: 'user', content: [image()] }];
      const { body: counted } = await ask(messages, '/count_tokens');
      await ask(messages);
      expect(counted.input_tokens).toBe(server.requests.at(-1)?.prompt.length);
    });

    it('name the place of an image that is damaged', async () => {
      const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' };
      const content = [
        { type: 'text', text: 'a' },
        { type: 'image', source },
      ];
      const { status, body } = await ask([{ role: 'user', content }]);
      expect(status).toBe(400);
      expect(body.error.message).toMatch(/^messages\[0\]\.content\[1\]: the image is no PNG/);
    });

    it('refuse another type of image', async () => {
      const source = { type: 'base64', media_type: 'image/tiff', data };
      const { status, body } = await ask([{ role: 'user', content: [{ type: 'image', source }] }]);
      expect(status).toBe(400);
      expect(body.error.message).toMatch(/media_type.*image\/png/);
    });
  });

  describe('Responses', () => {
    const ask = (input: unknown, more: object = {}) =>
      server.post('/v1/responses', { model: 'eyes', max_output_tokens: 2, input, ...more });
    const message = (...content: object[]) => [{ role: 'user', content }];

    it('have images by URL and by file, and keep them for the turns that follow', async () => {
      const file_id = await upload();
      const text = { type: 'input_text', text: 'same?' };
      const asked = await ask(
        message({ type: 'input_image', image_url: url() }, text, {
          type: 'input_image',
          file_id,
          detail: 'low',
        }),
      );
      expect(asked.status, JSON.stringify(asked.body)).toBe(200);
      expect(shown().counts).toEqual([6, 6]);
      const next = await ask('And now?', { previous_response_id: asked.body.id });
      expect(next.status, JSON.stringify(next.body)).toBe(200);
      expect(shown().counts).toEqual([6, 6]);
    });

    it('have images in outputs of functions', async () => {
      const { status, body } = await ask([
        { role: 'user', content: 'Look.' },
        { type: 'function_call', call_id: 'c', name: 'see', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: url() }] },
      ]);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(shown().counts).toEqual([6]);
    });

    it('have none in messages of the system', async () => {
      const input = [{ role: 'system', content: [{ type: 'input_image', image_url: url() }] }];
      const { status, body } = await ask([...input, { role: 'user', content: 'hi' }]);
      expect(status).toBe(400);
      expect(body.error.message).toMatch(
        /^input\[0\]\.content\[0\]: images are possible in messages of the user/,
      );
    });
  });

  describe('Ollama', () => {
    it('has images before the text, in chats and prompts', async () => {
      const chat = { model: 'eyes', messages: [{ role: 'user', content: 'What?', images: [data, data] }] };
      const given = { stream: false, options: { num_predict: 2 } };
      const chatted = await server.post('/api/chat', { ...chat, ...given });
      expect(chatted.status, JSON.stringify(chatted.body)).toBe(200);
      expect(shown().counts).toEqual([6, 6]);
      expect(shown().text).toMatch(/image.*image.*What\?/s);
      const prompt = { model: 'eyes', prompt: 'What?', images: [data] };
      const answered = await server.post('/api/generate', { ...prompt, ...given });
      expect(answered.status, JSON.stringify(answered.body)).toBe(200);
      expect(shown().counts).toEqual([6]);
    });

    it('refuses images without a template', async () => {
      const body = { model: 'eyes', prompt: 'a', raw: true, images: [data], stream: false };
      const { status, body: answer } = await server.post('/api/generate', body);
      expect(status).toBe(400);
      expect(answer.error).toMatch(/images: are not possible together with raw/);
    });
  });

  describe('llama-server', () => {
    const ask = (body: object) => server.post('/completion', { model: 'eyes', n_predict: 2, ...body });

    it('has images where the prompt marks them, shown as the template would', async () => {
      const marked = { prompt_string: 'A <__media__> B', multimodal_data: [data] };
      const { status, body } = await ask({ prompt: marked });
      expect(status, JSON.stringify(body)).toBe(200);
      expect(shown().counts).toEqual([6]);
      expect(shown().text).toContain('A <|vision_start|>[image]<|vision_end|> B');
      const { status: also } = await ask({ prompt: 'A [img-7] B', image_data: [{ id: 7, data }] });
      expect(also).toBe(200);
      expect(shown().text).toContain('A <|vision_start|>[image]<|vision_end|> B');
    });

    it('refuses other numbers of marks and images', async () => {
      const { status, body } = await ask({ prompt: { prompt_string: 'A', multimodal_data: [data] } });
      expect(status).toBe(400);
      expect(body.error.message).toMatch(/<__media__> is there 0 times, and there are 1 images/);
    });
  });

  it('are refused by completions, which have no place for them', async () => {
    const prompt = [{ type: 'image_url', image_url: { url: url() } }];
    const { status } = await server.post('/v1/completions', { model: 'eyes', prompt, max_tokens: 1 });
    expect(status).toBe(400);
  });
});

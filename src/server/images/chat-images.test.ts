import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type SeeingServer, seeingServer } from '../../../test/support/seeing-server.ts';
import { hasTestdata, testdata } from '../../../test/support/testdata.ts';

const dataUrl = (name: string) =>
  `data:image/png;base64,${readFileSync(testdata('vision', 'images', name)).toString('base64')}`;

describe.skipIf(!hasTestdata)('images in chat completions', () => {
  let server: SeeingServer;
  beforeAll(async () => {
    server = await seeingServer();
  });
  afterAll(() => server.close());
  beforeEach(() => void server.requests.splice(0));

  const image = (url: string, detail?: string) => ({ type: 'image_url', image_url: { url, detail } });
  const text = (words: string) => ({ type: 'text', text: words });
  const ask = (content: unknown, more: object = {}) =>
    server.post('/v1/chat/completions', {
      model: 'eyes',
      messages: [{ role: 'user', content }],
      max_tokens: 2,
      ...more,
    });

  it('reach the engine with a placeholder for each feature, and count as prompt tokens', async () => {
    const { status, body } = await ask([text('What?'), image(dataUrl('tiny-31x17.png'))]);
    expect(status, JSON.stringify(body)).toBe(200);
    const [request] = server.requests;
    const [picture] = request?.images?.images ?? [];
    expect(picture?.places).toHaveLength(6);
    expect(picture?.input.views[0]?.rgb.length).toBeGreaterThan(0);
    expect(picture?.key).toMatch(/^[0-9a-f]{64}-[0-9a-f]{32}$/);
    expect(request?.images?.rotaryPositions).toHaveLength(3 * (request?.prompt.length ?? 0));
    expect(body.usage.prompt_tokens).toBe(request?.prompt.length);
  });

  it('stay in their order, with text between them', async () => {
    const names = ['tiny-31x17.png', 'exif6-333x187.jpg'];
    const [a = '', b = ''] = names.map(dataUrl);
    await ask([text('first'), image(a), text('second'), image(b), text('same?')]);
    const images = server.requests[0]?.images?.images ?? [];
    expect(images).toHaveLength(2);
    expect(images[0]?.places.at(-1)).toBeLessThan(images[1]?.places[0] ?? 0);
    expect(images[1]?.input.tiles.picture).toEqual({ width: 187, height: 333 });
  });

  it('are had as a text in place of an object, too, and as Responses writes them', async () => {
    const url = dataUrl('tiny-31x17.png');
    for (const part of [
      { type: 'image_url', image_url: url },
      { type: 'input_image', image_url: url },
    ]) {
      const { status, body } = await ask([part]);
      expect(status, JSON.stringify(body)).toBe(200);
    }
    expect(server.requests.map(({ images }) => images?.images.length)).toEqual([1, 1]);
  });

  it('are refused by a model without eyes, which names one that has them', async () => {
    const { status, body } = await ask([image(dataUrl('tiny-31x17.png'))], { model: 'blind' });
    expect(status).toBe(400);
    expect(body.error.message).toBe(
      "messages[0].content[0]: the model 'blind' does not read images; these do: eyes",
    );
  });

  it('are refused by their place where they are damaged, of another type, or too many', async () => {
    const broken = await ask([text('a'), image('data:image/png;base64,AAAA')]);
    expect(broken.status).toBe(400);
    expect(broken.body.error.message).toMatch(/^messages\[0\]\.content\[1\]: the image is no PNG/);
    const svg = `data:image/svg+xml;base64,${Buffer.from('<svg/>').toString('base64')}`;
    expect((await ask([image(svg)])).body.error.message).toMatch(/no PNG, JPEG, WebP or GIF/);
    const many = await ask(Array(200).fill(image(dataUrl('tiny-31x17.png'))));
    expect(many.status).toBe(400);
    expect(many.body.error.message).toBe('messages: 200 images are too many; 32 are possible');
    expect((await ask([image('x', 'sharp')])).body.error.message).toMatch(/detail: must be one of/);
  });

  it('are fetched from nowhere by default, and never from a file', async () => {
    for (const url of [
      'https://images.example/a.png',
      'http://169.254.169.254/latest',
      'file:///etc/passwd',
    ]) {
      const { status, body } = await ask([image(url)]);
      expect(status).toBe(400);
      expect(body.error.message).toMatch(/data: URL/);
    }
  });

  it('are counted without being decoded', async () => {
    const messages = [{ role: 'user', content: [text('What?'), image(dataUrl('tiny-31x17.png'))] }];
    const counted = await server.post('/v1/chat/completions/input_tokens', { model: 'eyes', messages });
    const answered = await ask(messages[0]?.content);
    expect(counted.body.input_tokens).toBe(answered.body.usage.prompt_tokens);
  });

  it('are prepared once for all turns that show them', async () => {
    const content = [image(dataUrl('tiny-31x17.png'))];
    await ask(content);
    await ask(content);
    const [a, b] = server.requests.map(({ images }) => images?.images[0]);
    expect(a?.key).toBe(b?.key);
    expect(a?.input.views).toBe(b?.input.views);
  });
});

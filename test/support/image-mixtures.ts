// Random requests with images and without, for a model of files: some ask the same again, or something else about the same images.

import { readFileSync } from 'node:fs';
import type { EngineRequest } from '../../src/engine/request.ts';
import type { ContentPart } from '../../src/generation/chat-prompt.ts';
import { imagePrompt } from '../../src/generation/image-prompt.ts';
import type { Seeing } from '../vision/golden-case.ts';
import type { Random } from './random-blocks.ts';
import { seeingRequest } from './seeing-requests.ts';
import { testdata } from './testdata.ts';

const pictures = [
  'tiny-31x17.png',
  'alpha-160x120.png',
  'palette-120x90.gif',
  'tall-64x500.webp',
  'gray-333x187.png',
  'one-1x1.png',
];
const words = 'what is the colour of this one and that two red blue lift snow no yes where'.split(' ');

/** Longer ones would need more blocks than a few together have. */
const MOST_PROMPT = 220;

export async function randomRequests(
  seeing: Seeing,
  random: Random,
  count: number,
): Promise<readonly EngineRequest[]> {
  const below = (limit: number) => Math.floor(random() * limit);
  const text = (): ContentPart => ({
    type: 'text',
    text: Array.from({ length: 1 + below(12) }, () => words[below(words.length)]).join(' '),
  });
  const image = (): ContentPart => ({
    type: 'image_url',
    image_url: { url: `images/${pictures[below(pictures.length)]}` },
  });
  // PaliGemma has no chat: images, then one text.
  const turns = seeing.model.template === undefined || seeing.model.spec.prefixLm ? 1 : 2;
  const conversations: ContentPart[][] = [];
  const requests: EngineRequest[] = [];
  while (requests.length < count) {
    const images = Array.from({ length: below(3) }, image);
    const earlier = conversations[below(2 * conversations.length)];
    const parts =
      turns === 1
        ? [...images, text()]
        : earlier === undefined
          ? [text(), ...images.flatMap((one) => (random() < 0.5 ? [one, text()] : [one]))]
          : [...earlier, text()];
    const prompt = await imagePrompt(seeing.model, [{ role: 'user', content: parts }], {
      load: async (url) => readFileSync(testdata('vision', url)),
    });
    if (prompt.ids.length > MOST_PROMPT) continue;
    conversations.push(parts);
    const chance = random() < 0.5 ? { temperature: 0.9, seed: below(1000) } : {};
    const sampling = { maxTokens: 2 + below(56), ignoreEos: true, logprobs: 1, ...chance };
    requests.push(await seeingRequest(seeing, prompt, { sampling }));
  }
  return requests;
}

// Prompts with images, as llama-server takes them: `<__media__>` stands for each of `multimodal_data`, or `[img-N]` for the one of
// `image_data` with the id N.

import type { PicturePart } from '../../generation/picture-parts.ts';
import type { PromptInput } from '../../generation/prompt.ts';
import { badRequest } from '../http/errors.ts';
import type { WirePrompt } from '../openai/schemas/prompts.ts';
import type { PicturedGiven } from './schema.ts';

type ImageData = readonly { readonly data: string; readonly id: number }[];

const MEDIA = '<__media__>';

export function isPictured(prompt: WirePrompt | PicturedGiven): prompt is PicturedGiven {
  return typeof prompt === 'object' && 'multimodal_data' in prompt;
}

/** Undefined where there are no images. */
export function picturedInput(
  prompt: WirePrompt | PicturedGiven,
  images: ImageData = [],
): PromptInput | undefined {
  if (isPictured(prompt)) return byMarks(prompt);
  if (images.length === 0) return undefined;
  if (typeof prompt !== 'string') throw badRequest('image_data', 'needs a prompt that is one text');
  return byIds(prompt, images);
}

function byMarks({ prompt_string: text, multimodal_data: images }: PicturedGiven): PromptInput {
  const pieces = text.split(MEDIA);
  if (pieces.length - 1 !== images.length) {
    const problem = `${MEDIA} is there ${pieces.length - 1} times, and there are ${images.length} images`;
    throw badRequest('prompt.prompt_string', problem);
  }
  const pictures = images.map((data, at) => pictureOf(data, `prompt.multimodal_data[${at}]`));
  return { kind: 'pictured', pieces, pictures };
}

/** Images that the text does not name come before it. */
function byIds(text: string, images: ImageData): PromptInput {
  const pieces: string[] = [];
  const pictures: PicturePart[] = [];
  const named = new Set<number>();
  let end = 0;
  for (const { index, 0: mark, 1: id } of text.matchAll(/\[img-(\d+)\]/g)) {
    const at = images.findIndex((one) => one.id === Number(id));
    const image = images[at];
    if (image === undefined) continue;
    named.add(at);
    pieces.push(text.slice(end, index));
    pictures.push(pictureOf(image.data, `image_data[${at}]`));
    end = index + mark.length;
  }
  pieces.push(text.slice(end));
  const before = [...images.entries()].filter(([at]) => !named.has(at));
  return {
    kind: 'pictured',
    pieces: [...before.map(() => ''), ...pieces],
    pictures: [...before.map(([at, { data }]) => pictureOf(data, `image_data[${at}]`)), ...pictures],
  };
}

function pictureOf(data: string, where: string): PicturePart {
  return { url: /^data:/i.test(data) ? data : `data:image/png;base64,${data}`, detail: 'auto', where };
}

// A conversation with pictures: token ids with a placeholder for each of their features, and the pictures as towers read them.

import { decodePicture, type PictureLimits } from '../images/decode.ts';
import { type Picture, PictureError } from '../images/picture.ts';
import { type PictureText, pictureText } from '../images/picture-text.ts';
import { preprocess } from '../images/preprocess.ts';
import { planViews } from '../images/view-plan.ts';
import type { ViewRule } from '../model/vision/preprocessing.ts';
import type { ImageInput, VisionSpec } from '../model/vision/vision-spec.ts';
import type { LocalModel } from '../pool/local-model.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { type ChatMessage, chatPrompt } from './chat-prompt.ts';
import { invalid } from './generation-error.ts';

export interface ImagePrompt {
  readonly ids: Int32Array;
  /** In the order of the text. */
  readonly images: readonly ImageInput[];
  /** Positions of placeholders, ascending: those of the first picture, then those of the next. */
  readonly places: Int32Array;
  /** Time, row and column of each token, where the model rotates by them. */
  readonly rotaryPositions?: Int32Array;
  /** Of a prefix LM with images: where the prompt ends, whose tokens see each other. */
  readonly prefixEnd?: number;
}

interface ImagePromptOptions {
  /** Gives the file that a part's URL names. */
  readonly load: (url: string) => Promise<Uint8Array>;
  readonly limits?: PictureLimits;
}

type SeeingModel = Pick<LocalModel, 'spec' | 'tokenizer' | 'template'> & { readonly name: string };

export async function imagePrompt(
  { name, spec, tokenizer, template }: SeeingModel,
  messages: readonly ChatMessage[],
  { load, limits }: ImagePromptOptions,
): Promise<ImagePrompt> {
  const { vision } = spec;
  if (vision === undefined) throw invalid('messages', `the model '${name}' does not read images`);
  refuseReserved(messages, vision);
  const urls = pictureUrls(messages);
  const { views, amongSeveral = views } = vision.preprocessing;
  const rule = urls.length > 1 ? amongSeveral : views;
  const pictures = await Promise.all(
    urls.map(async ({ url, where }) =>
      readPicture(where, vision, rule, async () => decodePicture(await load(url), limits)),
    ),
  );
  const rendered = chatPrompt({ name, template }, { messages, images: true });
  const texts = pictures.map(({ text }) => text);
  const ids = tokenizer.encode(expanded(rendered, vision.prompt.marker, texts), { special: true });
  const places = placeholders(ids, placeholderId(tokenizer, vision), texts);
  return {
    ids,
    places,
    images: pictures.map(({ input }) => input),
    // As in transformers: a prompt of text alone is causal.
    ...(spec.prefixLm && pictures.length > 0 ? { prefixEnd: ids.length } : {}),
    ...(vision.prompt.positions === 'three-part' && pictures.length > 0
      ? { rotaryPositions: threePartPositions(ids.length, places, texts) }
      : {}),
  };
}

interface PictureUrl {
  readonly url: string;
  readonly where: string;
}

function pictureUrls(messages: readonly ChatMessage[]): PictureUrl[] {
  return messages.flatMap(({ content }, at) =>
    (Array.isArray(content) ? content : []).flatMap((part, index) => {
      if (part.type !== 'image_url') return [];
      const where = `messages[${at}].content[${index}]`;
      const url = typeof part.image_url === 'string' ? part.image_url : part.image_url?.url;
      if (typeof url !== 'string') throw invalid(where, 'has no image_url.url');
      return [{ url, where }];
    }),
  );
}

interface ReadPicture {
  readonly input: ImageInput;
  readonly text: PictureText;
}

async function readPicture(
  where: string,
  vision: VisionSpec,
  rule: ViewRule,
  decode: () => Promise<Picture>,
): Promise<ReadPicture> {
  try {
    const picture = await decode();
    const plan = planViews(rule, picture);
    const { rows, columns } = plan;
    const size = { width: picture.width, height: picture.height };
    return {
      input: {
        views: preprocess(picture, vision.preprocessing, plan),
        tiles: { rows, columns, picture: size },
      },
      text: pictureText(vision, plan, picture),
    };
  } catch (error) {
    if (error instanceof PictureError) throw invalid(where, error.message);
    throw error;
  }
}

/** Text must not look like a picture: which of a prompt's tokens are replaced is decided here alone. */
function refuseReserved(messages: readonly ChatMessage[], { prompt }: VisionSpec): void {
  const reserved = [prompt.marker, prompt.text, ...prompt.reserved];
  for (const [at, { content }] of messages.entries()) {
    const texts = typeof content === 'string' ? [content] : (content ?? []).map(({ text }) => text ?? '');
    const found = reserved.find((one) => texts.some((text) => text.includes(one)));
    if (found === undefined) continue;
    throw invalid(`messages[${at}].content`, `contains ${found}, which stands for images alone`);
  }
}

function expanded(rendered: string, marker: string, pictures: readonly PictureText[]): string {
  const pieces = rendered.split(marker);
  if (pieces.length - 1 !== pictures.length) {
    const problem = `the chat template shows ${pieces.length - 1} of ${pictures.length} images`;
    throw invalid('messages', problem);
  }
  return pieces.map((piece, at) => piece + (pictures[at]?.text ?? '')).join('');
}

function placeholderId(tokenizer: Tokenizer, { prompt }: VisionSpec): number {
  const [id, ...others] = tokenizer.encode(prompt.text, { special: true });
  if (id !== undefined && others.length === 0) return id;
  throw invalid('messages', `the model's tokenizer has no token ${prompt.text}, which stands for images`);
}

function placeholders(ids: Int32Array, token: number, texts: readonly PictureText[]): Int32Array {
  const places = Int32Array.from([...ids.entries()].flatMap(([at, id]) => (id === token ? [at] : [])));
  const wanted = texts.reduce((sum, { tokens }) => sum + tokens, 0);
  if (places.length === wanted) return places;
  throw invalid('messages', `${places.length} tokens stand for ${wanted} features of images`);
}

/** An image's tokens have one time, and rows and columns from there; after it positions go on from the larger of both. */
function threePartPositions(count: number, places: Int32Array, texts: readonly PictureText[]): Int32Array {
  const positions = new Int32Array(3 * count);
  let [next, taken] = [0, 0];
  const images = texts.map(({ tokens, grid }) => {
    const first = places[taken] as number;
    taken += tokens;
    return { first, tokens, grid };
  });
  for (let at = 0; at < count; ) {
    const image = images.find(({ first }) => first === at);
    if (image === undefined) {
      positions.fill(next++, 3 * at, 3 * at + 3);
      at++;
      continue;
    }
    const { rows, columns } = image.grid;
    for (let cell = 0; cell < image.tokens; cell++, at++) {
      positions.set([next, next + Math.floor(cell / columns), next + (cell % columns)], 3 * at);
    }
    next += Math.max(rows, columns);
  }
  return positions;
}

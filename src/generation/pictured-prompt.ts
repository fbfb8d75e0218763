// A conversation with pictures: token ids with a placeholder for each of their features, by headers alone; the pictures as towers
// read them are prepared afterwards.

import type { PromptImage, PromptImages, PromptPictures } from '../engine/request.ts';
import { defaultPictureLimits, type PictureLimits } from '../images/decode.ts';
import { viewRule } from '../images/detail.ts';
import { PictureError } from '../images/picture.ts';
import { type PictureText, pictureText } from '../images/picture-text.ts';
import {
  directPictures,
  type MeasuredPicture,
  type PictureReader,
  pictureKey,
} from '../images/picture-workers.ts';
import { planViews, type ViewPlan } from '../images/view-plan.ts';
import type { ImageInput, VisionSpec } from '../model/vision/vision-spec.ts';
import type { ServedModel } from '../pool/served-model.ts';
import type { ChatTemplate } from '../text/chat-template.ts';
import type { Tokenizer } from '../text/tokenizer.ts';
import { type Conversation, chatPrompt, checkText, type TextLimits } from './chat-prompt.ts';
import { checkTextFits, type Prompt } from './context-room.ts';
import { invalid } from './generation-error.ts';
import {
  BREAKER,
  type PicturePart,
  pictureParts,
  plainText,
  withPicturesAfterResults,
  withPlainText,
} from './picture-parts.ts';
import type { PromptEncoder } from './prompt-encoder.ts';

export interface ImageLimits extends PictureLimits {
  /** In one prompt. */
  readonly maxImages: number;
}

export const defaultImageLimits: ImageLimits = { ...defaultPictureLimits, maxImages: 32 };

/** How pictures are had and read. */
export interface ImageReading {
  /** Gives the file that a part's URL names; throws what the client is to be told. */
  readonly load: (part: PicturePart, signal: AbortSignal) => Promise<Uint8Array>;
  readonly pictures?: PictureReader | undefined;
  readonly limits?: ImageLimits | undefined;
  /** Names of models that read images, for who asks one that does not. */
  readonly seeing?: (() => readonly string[]) | undefined;
}

export interface PicturedPromptOptions extends ImageReading {
  readonly encoder: PromptEncoder;
  readonly account?: string | undefined;
  readonly signal: AbortSignal;
  readonly parameter: string;
  readonly mustFit?: boolean;
  readonly textLimits?: TextLimits | undefined;
  readonly now?: Date | undefined;
  readonly bos?: boolean | undefined;
  /** Tokens that come before the conversation's. */
  readonly before?: ((ids: Int32Array) => Int32Array) | undefined;
}

export type SeeingModel = Pick<
  ServedModel,
  'name' | 'path' | 'spec' | 'tokenizer' | 'template' | 'takesPictures'
>;

interface PlannedPicture {
  readonly part: PicturePart;
  readonly measured: MeasuredPicture;
  readonly plan: ViewPlan;
  readonly text: PictureText;
}

/** Texts with a picture after each but the last. */
export interface PicturedText {
  readonly pieces: readonly string[];
  readonly pictures: readonly PicturePart[];
}

export async function picturedPrompt(
  model: SeeingModel,
  given: Conversation | PicturedText,
  options: PicturedPromptOptions,
): Promise<Prompt> {
  const { tokenizer, spec } = model;
  const { vision } = spec;
  if (vision === undefined)
    throw invalid(options.parameter, `the model '${model.name}' does not read images`);
  const { rendered, parts } =
    'pieces' in given
      ? joinedPrompt(model, given, vision, options)
      : renderedPrompt(model, withPlainText(given, vision.prompt), vision, options);
  const pictures = await plannedPictures(parts, vision, options);
  const texts = pictures.map(({ text }) => text);
  const whole = expanded(rendered, vision.prompt.marker, texts);
  const { encoder, account, signal, bos = false, before = (ids) => ids, mustFit = true, parameter } = options;
  if (mustFit) checkTextFits(whole, model, parameter);
  const how = { special: true, bos, breaker: BREAKER };
  const own = await encoder.encode(model, whole, how, { account, signal });
  const ids = before(own);
  const prompt = {
    ids,
    text: rendered.replaceAll(BREAKER, ''),
    continuation: 'pieces' in given || given.continueFinalMessage === true,
  };
  const places = placeholders(ids, placeholderId(tokenizer, vision), texts, parameter);
  if (pictures.length === 0) return prompt;
  const rotaryPositions =
    vision.prompt.positions === 'three-part' ? threePartPositions(ids.length, places, texts) : undefined;
  const positions = rotaryPositions === undefined ? {} : { rotaryPositions };
  if (model.takesPictures) {
    const asTheyCame = pictures.map((picture, at) =>
      promptPicture(picture, places[at] as Int32Array, vision),
    );
    return { ...prompt, pictures: { images: asTheyCame, ...positions } };
  }
  const prepareImages = async (stop: AbortSignal): Promise<PromptImages> => {
    const images = await Promise.all(
      pictures.map((picture, at) => promptImage(picture, places[at] as Int32Array, vision, options, stop)),
    );
    return { images, ...positions };
  };
  return { ...prompt, prepareImages };
}

interface Rendered {
  readonly rendered: string;
  readonly parts: readonly PicturePart[];
}

function renderedPrompt(
  model: SeeingModel,
  conversation: Conversation,
  { prompt: { marker } }: VisionSpec,
  { limits: { maxImages } = defaultImageLimits, textLimits, parameter, now }: PicturedPromptOptions,
): Rendered {
  const parts = pictureParts(conversation.messages);
  checkCount(parts, maxImages, parameter);
  const render = (messages: Conversation['messages']) =>
    chatPrompt(model, { ...conversation, messages, images: true }, textLimits, now);
  const shown = (text: string) => text.split(marker).length - 1;
  const rendered = render(conversation.messages);
  if (shown(rendered) === parts.length) return { rendered, parts };
  const moved = withPicturesAfterResults(conversation.messages);
  const again = moved.length === conversation.messages.length ? rendered : render(moved);
  if (shown(again) === parts.length) return { rendered: again, parts: pictureParts(moved) };
  throw invalid(parameter, `the chat template shows ${shown(rendered)} of ${parts.length} images`);
}

function checkCount(parts: readonly PicturePart[], most: number, parameter: string): void {
  if (parts.length <= most) return;
  throw invalid(parameter, `${parts.length} images are too many; ${most} are possible`);
}

/** Each picture as the model's template would show it. */
function joinedPrompt(
  { template }: SeeingModel,
  { pieces, pictures }: PicturedText,
  { prompt }: VisionSpec,
  { limits: { maxImages } = defaultImageLimits, textLimits, parameter }: PicturedPromptOptions,
): Rendered {
  checkCount(pictures, maxImages, parameter);
  checkText(parameter, pieces.join(''), textLimits);
  const shown = (template && shownPicture(template, prompt.marker)) ?? prompt.marker;
  return { rendered: pieces.map((piece) => plainText(piece, prompt)).join(shown), parts: pictures };
}

/** Undefined where the template shows it in a way of its own. */
function shownPicture({ render }: ChatTemplate, marker: string): string | undefined {
  const text = (words: string) => ({ type: 'text', text: words });
  const content = [text('Before it.'), { type: 'image' }, text('After it.')];
  try {
    const rendered = render({ messages: [{ role: 'user', content }], addGenerationPrompt: false });
    const shown = /Before it\.([\s\S]*)After it\./.exec(rendered)?.[1]?.trim();
    return shown?.split(marker).length === 2 ? shown : undefined;
  } catch {
    return undefined;
  }
}

async function plannedPictures(
  parts: readonly PicturePart[],
  vision: VisionSpec,
  options: PicturedPromptOptions,
): Promise<PlannedPicture[]> {
  const { load, pictures = directPictures, limits = defaultImageLimits, account, signal } = options;
  return Promise.all(
    parts.map((part) =>
      blaming(part.where, async () => {
        const file = await load(part, signal);
        const measured = await pictures.measure(file, limits, { account, signal });
        const rule = viewRule(vision.preprocessing, parts.length > 1, part.detail);
        const plan = planViews(rule, measured.size);
        return { part, measured, plan, text: pictureText(vision, plan, measured.size) };
      }),
    ),
  );
}

function promptPicture(
  { part: { where, detail }, measured: { file, hash, size }, plan }: PlannedPicture,
  places: Int32Array,
  { preprocessing }: VisionSpec,
): PromptPictures['images'][number] {
  return { key: pictureKey(hash, preprocessing, plan), places, file, hash, size, detail, where };
}

async function promptImage(
  { part, measured, plan }: PlannedPicture,
  places: Int32Array,
  { preprocessing }: VisionSpec,
  { pictures = directPictures, account }: PicturedPromptOptions,
  signal: AbortSignal,
): Promise<PromptImage> {
  return blaming(part.where, async () => {
    const views = await pictures.views(measured, preprocessing, plan, { account, signal });
    const { rows, columns } = plan;
    const input: ImageInput = { views, tiles: { rows, columns, picture: measured.size } };
    return { key: pictureKey(measured.hash, preprocessing, plan), input, places };
  });
}

async function blaming<Result>(where: string, read: () => Promise<Result>): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof PictureError) throw invalid(where, error.message);
    throw error;
  }
}

function expanded(rendered: string, marker: string, pictures: readonly PictureText[]): string {
  return rendered
    .split(marker)
    .map((piece, at) => piece + (pictures[at]?.text ?? ''))
    .join('');
}

function placeholderId(tokenizer: Tokenizer, { prompt }: VisionSpec): number {
  const [id, ...others] = tokenizer.encode(prompt.text, { special: true });
  if (id !== undefined && others.length === 0) return id;
  throw invalid('messages', `the model's tokenizer has no token ${prompt.text}, which stands for images`);
}

/** Of each picture, ascending. */
function placeholders(
  ids: Int32Array,
  token: number,
  texts: readonly PictureText[],
  parameter: string,
): Int32Array[] {
  const places = Int32Array.from([...ids.entries()].flatMap(([at, id]) => (id === token ? [at] : [])));
  const wanted = texts.reduce((sum, { tokens }) => sum + tokens, 0);
  if (places.length !== wanted) {
    const problem = `${places.length} tokens stand for ${wanted} features of images: text must not spell what stands for one`;
    throw invalid(parameter, problem);
  }
  let taken = 0;
  return texts.map(({ tokens }) => {
    taken += tokens;
    return places.slice(taken - tokens, taken);
  });
}

/** An image's tokens have one time, and rows and columns from there; after it positions go on from the larger of both. */
function threePartPositions(
  count: number,
  places: readonly Int32Array[],
  texts: readonly PictureText[],
): Int32Array {
  const positions = new Int32Array(3 * count);
  let next = 0;
  const images = new Map(texts.map((text, index) => [places[index]?.[0], text]));
  for (let at = 0; at < count; ) {
    const image = images.get(at);
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

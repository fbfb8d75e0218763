// Images as each protocol writes them, as parts of a chat: a URL, or a file of the key's own.

import { z } from 'zod';
import { placeInRequest } from '../../generation/chat-prompt.ts';
import { type FileReader, storedFile } from '../files/file-text.ts';
import { badRequest } from '../http/errors.ts';

export type ImagePart = {
  readonly type: 'image_url';
  readonly image_url: { readonly url: string; readonly detail?: string };
  readonly [placeInRequest]: string;
};

const inputImage = z.looseObject({
  image_url: z
    .union([z.string(), z.looseObject({ url: z.string(), detail: z.string().nullish() })])
    .nullish(),
  file_id: z.string().nullish(),
  detail: z.string().nullish(),
});

/** `where`: what the client calls it. */
export function imageOf(url: string, where: string, detail?: string | null): ImagePart {
  return {
    type: 'image_url',
    image_url: { url, ...(detail == null ? {} : { detail }) },
    [placeInRequest]: where,
  };
}

/** Base64 alone. The type that is given is not believed: the first bytes say what a file is. */
export function base64Image(data: string, where: string, type = 'image/png'): ImagePart {
  return imageOf(/^data:/i.test(data) ? data : `data:${type};base64,${data}`, where);
}

/** `input_image` of the Responses. */
export async function imagePart(reader: FileReader, given: object, where: string): Promise<ImagePart> {
  const read = inputImage.safeParse(given);
  if (!read.success) throw badRequest(where, 'must have image_url or file_id');
  const { image_url: image, file_id: id, detail } = read.data;
  if ((image == null) === (id == null)) throw badRequest(where, 'must have either image_url or file_id');
  if (id != null) return fileImage(reader, id, where, detail);
  if (typeof image === 'string') return imageOf(image, where, detail);
  return imageOf(image?.url ?? '', where, image?.detail ?? detail);
}

export async function fileImage(
  reader: FileReader,
  id: string,
  where: string,
  detail?: string | null,
): Promise<ImagePart> {
  const { maxBytes } = reader.context.settings.images;
  const { bytes } = await storedFile(reader, id, `${where}.file_id`, maxBytes);
  return imageOf(`data:${mediaType(bytes)};base64,${bytes.toString('base64')}`, where, detail);
}

/** For upstreams; this server looks for itself. */
function mediaType(bytes: Buffer): string {
  const start = bytes.subarray(0, 12).toString('latin1');
  if (start.startsWith('\xff\xd8')) return 'image/jpeg';
  if (start.startsWith('GIF8')) return 'image/gif';
  return start.startsWith('RIFF') ? 'image/webp' : 'image/png';
}

// Images that a conversation names as files of the key: their bytes take the place of their ids.

import type { FileReader } from '../files/file-text.ts';
import { fileImage } from '../images/image-part.ts';
import type { ImageBlock, Message } from './schema.ts';

type Content = readonly { readonly type: string }[];

export async function withImageFiles<Given extends { readonly messages: readonly Message[] }>(
  given: Given,
  reader: FileReader,
): Promise<Given> {
  if (!given.messages.some(({ content }) => hasFile(content))) return given;
  const messages: Message[] = [];
  for (const [at, message] of given.messages.entries()) {
    const content = await withFiles(message.content, `messages[${at}].content`, reader);
    messages.push({ ...message, content } as Message);
  }
  return { ...given, messages };
}

function hasFile(content: Content): boolean {
  return content.some((block) => isFile(block) || hasFile(innerOf(block)));
}

function isFile(block: { readonly type: string }): block is ImageBlock {
  return block.type === 'image' && (block as ImageBlock).source.type === 'file';
}

/** Of a result. */
function innerOf(block: { readonly type: string; readonly content?: unknown }): Content {
  return block.type === 'tool_result' && Array.isArray(block.content) ? block.content : [];
}

async function withFiles(content: Content, where: string, reader: FileReader): Promise<Content> {
  const read: Content[number][] = [];
  for (const [at, block] of content.entries()) {
    const place = `${where}[${at}]`;
    const inner = innerOf(block);
    if (isFile(block) && block.source.type === 'file') {
      const { image_url: image } = await fileImage(reader, block.source.file_id, `${place}.source`);
      read.push({ ...block, source: { type: 'url', url: image.url } } as ImageBlock);
    } else if (inner.length > 0) {
      read.push({ ...block, content: await withFiles(inner, `${place}.content`, reader) } as typeof block);
    } else read.push(block);
  }
  return read;
}

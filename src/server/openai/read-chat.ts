// Reads a chat: tools also in their older form, files as their texts, images in one form.

import { z } from 'zod';
import { type FileReader, fileText } from '../files/file-text.ts';
import { badRequest } from '../http/errors.ts';
import { imagePart } from '../images/image-part.ts';
import { withTools } from './older-functions.ts';
import type { ChatBody, ChatRequest } from './schemas/chat.ts';

type Message = ChatRequest['messages'][number];

const filePart = z.looseObject({
  type: z.literal('file'),
  file: z.object({
    file_id: z.string().nullish(),
    file_data: z.string().nullish(),
    filename: z.string().nullish(),
  }),
});

export async function readChat(given: ChatRequest, reader: FileReader): Promise<ChatBody> {
  const messages: Message[] = [];
  for (const [at, message] of given.messages.entries()) messages.push(await withTexts(message, at, reader));
  return withTools({ ...given, messages });
}

async function withTexts(message: Message, at: number, reader: FileReader): Promise<Message> {
  const { content } = message;
  if (!Array.isArray(content) || content.every(({ type }) => !['file', 'input_image'].includes(type))) {
    return message;
  }
  const parts: (typeof content)[number][] = [];
  for (const [index, part] of content.entries()) {
    const where = `messages[${at}].content[${index}]`;
    if (part.type === 'file') parts.push(await asText(part, where, reader));
    else parts.push(part.type === 'input_image' ? await imagePart(reader, part, where) : part);
  }
  return { ...message, content: parts };
}

async function asText(part: object, where: string, reader: FileReader) {
  const read = filePart.safeParse(part);
  if (!read.success) throw badRequest(where, 'must have a file with file_id or file_data');
  return { type: 'text', text: await fileText(reader, read.data.file, `${where}.file`) };
}

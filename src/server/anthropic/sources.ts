// Blocks that hold more than text, spelled for a model that reads only that: search results, documents, references to tools.

import { element } from '../files/file-text.ts';
import type { Message, ResultBlock } from './schema.ts';

type SourceBlock = Exclude<ResultBlock, { type: 'text' | 'image' }>;

export function spelled(block: SourceBlock): string {
  switch (block.type) {
    case 'search_result': {
      const { source, title, content } = block;
      return element('search_result', { source, title }, joined(content));
    }
    case 'document': {
      const { title, context, source } = block;
      const text = source.type === 'text' ? source.data : joined(source.content);
      return element('document', { title, context }, text);
    }
    case 'tool_reference':
      return `The tool ${block.tool_name} can be called now.`;
  }
}

/** Sources whose client wants to be told what the answer takes from them. */
export function citationWarnings(messages: readonly Message[]): string[] {
  const blocks = messages.flatMap(({ content }): readonly object[] =>
    content.flatMap((block): object[] => (block.type === 'tool_result' ? (block.content ?? []) : [block])),
  );
  const asked = blocks.some((block) => {
    const { citations } = block as { readonly citations?: { readonly enabled?: unknown } | null };
    return !Array.isArray(citations) && citations?.enabled === true;
  });
  return asked ? ['citations were asked for and are not made: the answer is plain text'] : [];
}

/** The tools that results of a search have named. */
export function referencedTools(messages: readonly Message[]): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { role, content } of messages) {
    if (role !== 'user') continue;
    for (const block of content) {
      if (block.type !== 'tool_result') continue;
      for (const part of block.content ?? []) if (part.type === 'tool_reference') names.add(part.tool_name);
    }
  }
  return names;
}

function joined(blocks: readonly { readonly text: string }[]): string {
  return blocks.map(({ text }) => text).join('\n');
}

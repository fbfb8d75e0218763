// Markdown as nodes of the page. Only what is listed here becomes an element: HTML in it stays text, pictures are not
// loaded, and links lead to http, https and mailto alone.

import type { Token, Tokens } from 'marked';
import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useRef } from 'preact/hooks';
import { visible } from '../../../src/text/visible.ts';
import { ScrollBox } from '../shell/table.tsx';
import { CodeBlock } from './code-block.tsx';
import { MarkdownBlocks } from './markdown-blocks.ts';
import { Formula } from './math.tsx';
import { LongText } from './safe-text.tsx';

export function Markdown({ text }: { readonly text: string }) {
  const blocks = useRef<MarkdownBlocks | undefined>(undefined);
  blocks.current ??= new MarkdownBlocks();
  return (
    <div class="markdown">
      {blocks.current.read(text).map(({ raw, token }, at) => (
        <Block key={at} raw={raw} token={token} />
      ))}
    </div>
  );
}

const Block = memo(
  ({ token }: { readonly raw: string; readonly token: Token }) => <>{block(token)}</>,
  (before, after) => before.raw === after.raw && before.token.type === after.token.type,
);

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'hr':
      return <hr />;
    case 'heading':
      return heading(token as Tokens.Heading);
    case 'paragraph':
      return <p>{inline(token.tokens)}</p>;
    case 'text':
      return token.tokens === undefined ? words(decoded(token.text)) : inline(token.tokens);
    case 'code':
      return <CodeBlock text={token.text} language={token.lang ?? ''} />;
    case 'blockquote':
      return <blockquote>{inner(token.tokens)}</blockquote>;
    case 'list':
      return list(token as Tokens.List);
    case 'table':
      return table(token as Tokens.Table);
    case 'math':
      return <Formula text={token.text} display />;
    case 'group':
      return inner(token.tokens);
    default:
      return (
        <p class="plain">
          <LongText text={token.raw} />
        </p>
      );
  }
}

function inner(tokens: readonly Token[] = []): ComponentChildren {
  return tokens.map(block);
}

/** The page has headings of its own above these. */
function heading({ depth, tokens }: Tokens.Heading): ComponentChildren {
  const Level = (['h3', 'h4', 'h5', 'h6', 'h6', 'h6'] as const)[depth - 1] ?? 'h6';
  return <Level>{inline(tokens)}</Level>;
}

function list({ ordered, start, items }: Tokens.List): ComponentChildren {
  const children = items.map((item, at) => (
    <li key={at}>
      {item.task && <input type="checkbox" checked={item.checked === true} disabled aria-label="task" />}
      {inner(item.tokens.filter(({ type }) => type !== 'checkbox'))}
    </li>
  ));
  return ordered ? <ol start={start === '' ? 1 : start}>{children}</ol> : <ul>{children}</ul>;
}

function table({ header, rows, align }: Tokens.Table): ComponentChildren {
  return (
    <ScrollBox name="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell, at) => (
              <th key={at} data-align={align[at]}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map((cell, column) => (
                <td key={column} data-align={align[column]}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}

function inline(tokens: readonly Token[] = []): ComponentChildren {
  return tokens.map(phrase);
}

function phrase(token: Token): ComponentChildren {
  switch (token.type) {
    case 'text':
      return token.tokens === undefined ? words(decoded(token.text)) : inline(token.tokens);
    case 'math':
    case 'inlineMath':
      return <Formula text={token.text} display={token.type === 'math'} />;
    case 'escape':
      return words(token.text);
    case 'strong':
      return <strong>{inline(token.tokens)}</strong>;
    case 'em':
      return <em>{inline(token.tokens)}</em>;
    case 'del':
      return <del>{inline(token.tokens)}</del>;
    case 'codespan':
      return <code>{words(token.text)}</code>;
    case 'br':
      return <br />;
    case 'link':
      return link((token as Tokens.Link).href, inline(token.tokens));
    case 'image':
      return link((token as Tokens.Image).href, <>picture: {words(token.text || token.href)}</>);
    default:
      return words(token.raw);
  }
}

function link(href: string, children: ComponentChildren): ComponentChildren {
  if (!isHarmless(href)) return <span title={visible(href)}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer" title={visible(href)}>
      {children}
    </a>
  );
}

function isHarmless(href: string): boolean {
  try {
    return ['http:', 'https:', 'mailto:'].includes(new URL(href).protocol);
  } catch {
    return false;
  }
}

/** Entities, one at a time, by the browser's own table: in a text area nothing becomes an element. */
function decoded(text: string): string {
  if (!text.includes('&')) return text;
  return text.replaceAll(/&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,31});/g, (entity) => {
    entities ??= document.createElement('textarea');
    entities.innerHTML = entity;
    return entities.value;
  });
}

let entities: HTMLTextAreaElement | undefined;

function words(text: string): ComponentChildren {
  return <LongText text={text} />;
}

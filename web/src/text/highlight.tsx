// Code in colours, by the parts that highlight.js finds in it. Until that is loaded, and in languages it does not know, it is plain.

import type { ComponentChildren } from 'preact';
import { visible } from '../../../src/text/visible.ts';
import { Lazy, useLazy } from './lazy.ts';
import { LongText } from './safe-text.tsx';

const highlighter = new Lazy(async () => {
  const { common, createLowlight } = await import('lowlight');
  return createLowlight(common);
});

type Tree = ReturnType<NonNullable<typeof highlighter.module>['highlight']>;
type Part = Tree['children'][number];

/** Longer code would take more than a moment at every word that comes. */
const MOST_CHARACTERS = 20_000;

export function Highlighted({ text, language }: { readonly text: string; readonly language: string }) {
  const found = useLazy(highlighter);
  if (found === undefined || text.length > MOST_CHARACTERS || !found.registered(language)) {
    return <LongText text={text} />;
  }
  return <>{found.highlight(language, text).children.map(part)}</>;
}

function part(one: Part, at: number): ComponentChildren {
  if (one.type === 'text') return visible(one.value);
  if (one.type !== 'element') return null;
  const names = one.properties.className;
  return (
    <span key={at} class={Array.isArray(names) ? names.join(' ') : undefined}>
      {one.children.map((child, index) => part(child, index))}
    </span>
  );
}

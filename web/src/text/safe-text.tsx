// Text that others wrote, made harmless: on one line, where it cannot affect its surroundings, or at any length, where
// a megabyte on one line does not hold up the page.

import { useState } from 'preact/hooks';
import { visible } from '../../../src/text/visible.ts';
import { count, shortened } from './format.ts';

interface SafeTextProps {
  readonly text: string;
  readonly most?: number;
}

const TOOLTIP_CHARACTERS = 2000;

export function SafeText({ text, most = 300 }: SafeTextProps) {
  const shown = visible(shortened(text, most));
  const rest = text.length > most ? { title: visible(shortened(text, TOOLTIP_CHARACTERS)) } : {};
  return (
    <bdi class="safe" {...rest}>
      {shown}
    </bdi>
  );
}

/** A browser lays out a long line as a whole, which takes time; many short lines do not. */
const FIRST_CHARACTERS = 200_000;
const FIRST_OF_LONG_LINES = 12_000;
const LONG_LINE_CHARACTERS = 4000;
const MORE_CHARACTERS = 100_000;

export function LongText({ text }: { readonly text: string }) {
  const [more, setMore] = useState(0);
  const isLong = text.length > FIRST_OF_LONG_LINES && hasLongLine(text);
  const most = more + (isLong ? FIRST_OF_LONG_LINES : FIRST_CHARACTERS);
  if (text.length <= most) return <>{visible(text)}</>;
  return (
    <>
      {visible(shortened(text, most))}
      <button type="button" class="more" onClick={() => setMore(more + MORE_CHARACTERS)}>
        {count(text.length - most)} more characters
      </button>
    </>
  );
}

function hasLongLine(text: string): boolean {
  for (let start = 0; start + LONG_LINE_CHARACTERS <= text.length; ) {
    const end = text.indexOf('\n', start);
    if (end < 0 || end - start >= LONG_LINE_CHARACTERS) return true;
    start = end + 1;
  }
  return false;
}

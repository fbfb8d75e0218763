// A text of any length: what comes after the first screens is shown when somebody asks for it, so that a megabyte on one
// line does not hold up the page.

import { useState } from 'preact/hooks';
import { visible } from '../../../src/text/visible.ts';
import { count } from './format.ts';
import { shortened } from './shortened.ts';

/** Lines cost little, but a browser looks at the whole of a long one to break it. */
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

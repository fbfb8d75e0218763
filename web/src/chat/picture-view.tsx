// An image of a message: small, and as it was sent when it is clicked.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { AttachedImage } from './conversation.ts';
import { pictureOf } from './pictures.ts';

export function PictureView({ image }: { readonly image: AttachedImage }) {
  const { id, name, thumbnail, width, height } = image;
  const [url, setUrl] = useState<string | 'gone'>();
  return (
    <>
      <button
        type="button"
        class="picture-button"
        aria-label={`Show ${name}`}
        title={`${name}, ${width} × ${height} pixels`}
        onClick={async () => setUrl((await pictureOf(id)) ?? 'gone')}
      >
        <img class="picture" src={thumbnail} alt={name} />
      </button>
      {url !== undefined && <Shown name={name} url={url} onClose={() => setUrl(undefined)} />}
    </>
  );
}

interface ShownProps {
  readonly name: string;
  readonly url: string;
  readonly onClose: () => void;
}

function Shown({ name, url, onClose }: ShownProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="shown-picture" aria-label={name} onClose={onClose}>
      {url === 'gone' ? (
        <p>This browser no longer has the image: a model is told so in its place.</p>
      ) : (
        <img src={url} alt={name} />
      )}
      <form method="dialog" class="row">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

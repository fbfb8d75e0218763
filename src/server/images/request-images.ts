// How the images of a request are had and read: `data:` URLs, and hosts that the settings list. Their files together have a limit.

import type { ImageReading } from '../../generation/pictured-prompt.ts';
import { dataUrlBytes, isDataUrl } from '../../images/data-url.ts';
import { PictureError } from '../../images/picture.ts';
import { fetchImage, ImageFetchError } from '../../upstream/image-fetch.ts';
import { parseImageHost } from '../../upstream/image-hosts.ts';
import type { ServerContext } from '../context.ts';
import { badRequest } from '../http/errors.ts';

/** For one request. */
export function requestImages({ pool, pictures, settings }: ServerContext): ImageReading {
  const { images: limits, imageHosts } = settings;
  const hosts = imageHosts.map(parseImageHost);
  const { maxBytes, maxTotalBytes } = limits;
  let total = 0;
  return {
    pictures,
    limits,
    seeing: () => pool.list().flatMap(({ name, sees }) => (sees ? [name] : [])),
    async load({ url, where }, signal) {
      try {
        const file = isDataUrl(url)
          ? dataUrlBytes(url, maxBytes)
          : await fetchImage(url, { hosts, maxBytes, signal });
        total += file.length;
        if (total > maxTotalBytes) {
          throw new PictureError(`the images have more than ${maxTotalBytes} bytes together`);
        }
        return file;
      } catch (error) {
        if (error instanceof ImageFetchError) throw badRequest(where, error.message, 'invalid_image_url');
        throw error;
      }
    },
  };
}

//! Small indexed pictures, embedded in the page.

/// An 8-bit PNG with a palette (ISO/IEC 15948), not compressed: deflate's stored blocks (RFC 1951,
/// 3.2.4) in a zlib frame (RFC 1950). `pixels` are palette indices row by row, `width` (above 0)
/// per row; index 0 is transparent.
pub fn encode(width: usize, pixels: &[u8], palette: &[[u8; 3]]) -> Vec<u8> {
    let height = pixels.len() / width;
    let mut head = Vec::new();
    head.extend((width as u32).to_be_bytes());
    head.extend((height as u32).to_be_bytes());
    // Depth 8, palette colours, deflate, standard filters, not interlaced.
    head.extend([8, 3, 0, 0, 0]);

    // Every row begins with its filter: none.
    let rows: Vec<u8> = pixels
        .chunks_exact(width)
        .flat_map(|row| std::iter::once(&0).chain(row))
        .copied()
        .collect();
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &head);
    chunk(&mut out, b"PLTE", palette.as_flattened());
    chunk(&mut out, b"tRNS", &[0]);
    chunk(&mut out, b"IDAT", &zlib(&rows));
    chunk(&mut out, b"IEND", &[]);
    out
}

/// As the address of an image.
pub fn data_uri(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64(png))
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    out.extend((content.len() as u32).to_be_bytes());
    let start = out.len();
    out.extend(name);
    out.extend(content);
    let sum = crc32fast::hash(&out[start..]);
    out.extend(sum.to_be_bytes());
}

fn zlib(data: &[u8]) -> Vec<u8> {
    const MOST: usize = u16::MAX as usize;
    let mut out = vec![0x78, 0x01];
    let blocks = data.len().div_ceil(MOST);
    for (i, block) in data.chunks(MOST).enumerate() {
        let len = block.len() as u16;
        out.push(u8::from(i + 1 == blocks));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
    out.extend(adler32(data).to_be_bytes());
    out
}

fn adler32(data: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (mut a, mut b) = (1u32, 0u32);
    for &byte in data {
        a = (a + u32::from(byte)) % MODULUS;
        b = (b + a) % MODULUS;
    }
    b << 16 | a
}

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for group in data.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            match i <= group.len() {
                true => out.push(char::from(DIGITS[(bits >> (18 - 6 * i) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn checksums_and_sizes() {
        assert_eq!(adler32(b"Wikipedia"), 0x11E6_0398);
        let png = encode(3, &[0, 1, 2, 3, 4, 5], &[[9; 3]; 6]);
        assert_eq!(&png[16..24], [0, 0, 0, 3, 0, 0, 0, 2]);
        assert_eq!(&png[png.len() - 8..png.len() - 4], b"IEND");
        let large = zlib(&vec![7; 70_000]);
        assert_eq!(large.len(), 2 + 2 * 5 + 70_000 + 4);
        assert_eq!((large[2], large[2 + 5 + 65535]), (0, 1), "only the last block is final");
    }
}

//! Small indexed pictures, embedded in the page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use png::{BitDepth, ColorType, Encoder, EncodingError};

/// The address of an 8-bit PNG with a palette (`data:image/png;base64,...`). `pixels` are palette
/// indices row by row, `width` (above 0) per row; index 0 is transparent. Empty where the picture has
/// no rows, or more of them than the format can hold.
pub fn data_uri(width: usize, pixels: &[u8], palette: &[[u8; 3]]) -> String {
    let encoded = encode(width, pixels, palette);
    encoded.map_or_else(
        |_| String::new(),
        |png| format!("data:image/png;base64,{}", STANDARD.encode(png)),
    )
}

fn encode(width: usize, pixels: &[u8], palette: &[[u8; 3]]) -> Result<Vec<u8>, EncodingError> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width as u32, (pixels.len() / width) as u32);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_palette(palette.as_flattened());
    encoder.set_trns(&[0][..]);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use png::{Decoder, Transformations};

    #[test]
    fn pixels_and_colours_come_back() {
        let palette: Vec<[u8; 3]> = (0..=255).map(|i| [i, 255 - i, i / 2]).collect();
        let pixels: Vec<u8> = (0..300 * 7).map(|i: u32| (i * i % 256) as u8).collect();
        let uri = data_uri(300, &pixels, &palette);
        let png = STANDARD.decode(uri.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
        let mut decoder = Decoder::new(std::io::Cursor::new(png));
        decoder.set_transformations(Transformations::IDENTITY);
        let mut reader = decoder.read_info().unwrap();
        let mut found = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut found).unwrap();
        assert_eq!((frame.width, frame.height, frame.color_type), (300, 7, ColorType::Indexed));
        assert_eq!(found, pixels);
        assert_eq!(reader.info().palette.as_deref(), Some(palette.as_flattened()));
        assert_eq!(
            reader.info().trns.as_deref(),
            Some(&[0][..]),
            "the first colour is transparent"
        );
    }

    #[test]
    fn a_picture_without_rows_is_none() {
        assert_eq!(data_uri(3, &[], &[[0; 3]]), "");
    }
}

//! Assets: the page as browsers get it, built from `page` by the build script.

/// A file, by the path of its address.
pub struct Asset {
    pub path: &'static str,
    pub kind: &'static str,
    pub content: &'static [u8],
}

/// All of them; the first is what stands in where the page was not built.
pub const ALL: &[Asset] = &[
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        content: include_bytes!(concat!(env!("OUT_DIR"), "/assets/index.html")),
    },
    Asset {
        path: "/app.js",
        kind: "text/javascript; charset=utf-8",
        content: include_bytes!(concat!(env!("OUT_DIR"), "/assets/app.js")),
    },
    Asset {
        path: "/app.css",
        kind: "text/css; charset=utf-8",
        content: include_bytes!(concat!(env!("OUT_DIR"), "/assets/app.css")),
    },
];

#[cfg(test)]
mod tests {
    use super::ALL;
    use frostline_testing::{Requirement, skip};

    /// Bytes of all of it, before they are compressed.
    const MOST: usize = 300_000;

    #[test]
    fn the_page_is_small_and_asks_nobody_else() {
        if !cfg!(page) {
            skip(Requirement::Browser, "the page was built without npm");
            return;
        }
        let sizes: Vec<usize> = ALL.iter().map(|asset| asset.content.len()).collect();
        assert!(
            sizes.iter().sum::<usize>() < MOST && sizes.iter().all(|size| *size > 500),
            "{sizes:?}"
        );
        for asset in ALL {
            let text = String::from_utf8_lossy(asset.content);
            // Names of namespaces look like addresses.
            let elsewhere = text.replace("http://www.w3.org/", "");
            assert!(
                !elsewhere.contains("http://") && !elsewhere.contains("https://"),
                "{}",
                asset.path
            );
        }
    }
}

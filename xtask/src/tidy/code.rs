//! Rust files of the repository, parsed, without tests.

use super::files::Tree;
use std::collections::BTreeMap;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// A Rust file.
pub struct Code {
    /// Where it stands.
    pub path: String,
    /// Crate, then modules: `frostline_core::policy::memtis`.
    pub module: Vec<String>,
    /// Its items, those of tests left out.
    pub items: Vec<Item>,
}

/// Parses all files below a `src` folder of a crate. Tests, benchmarks and examples are no part of what
/// is built.
pub fn read(tree: &Tree) -> Vec<Code> {
    let sources = tree.files().filter(|file| file.extension() == "rs");
    let code = sources.filter_map(|file| {
        let (folder, rest) = file.path.split_once("/src/")?;
        let name = file.name();
        if rest.starts_with("bin/") || name.ends_with("_tests.rs") || is_test_file(name) {
            return None;
        }
        let manifest: toml::Table = tree.get(&format!("{folder}/Cargo.toml"))?.text.parse().ok()?;
        let package = manifest.get("package")?.get("name")?.as_str()?.replace('-', "_");
        let lib = manifest.get("lib").and_then(|lib| lib.get("name")?.as_str());
        let package = lib.unwrap_or(&package).to_owned();
        let mut module = vec![package];
        let stem = rest.strip_suffix(".rs")?;
        module.extend(stem.split('/').map(str::to_owned));
        if ["mod", "lib", "main"].contains(&module.last()?.as_str()) {
            module.pop();
        }
        let mut items = syn::parse_file(&file.text).ok()?.items;
        items.retain(|item| !is_test(attributes(item)));
        Some(Code { path: file.path.clone(), module, items })
    });
    code.collect()
}

fn is_test_file(name: &str) -> bool {
    ["tests.rs", "testing.rs"].contains(&name)
}

/// Whether an item is there in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            _ => return false,
        };
        text == "test" || text.starts_with("test ,") || text.starts_with("all (test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Paths that a file names, as they are written.
#[derive(Default)]
struct Named {
    /// Imports: the path, and the name that it has here.
    uses: Vec<(Vec<String>, String)>,
    /// Paths in code.
    paths: Vec<Vec<String>>,
}

impl Named {
    /// Of these items.
    fn of(items: &[Item]) -> Self {
        let mut named = Self::default();
        items.iter().for_each(|item| named.visit_item(item));
        named
    }

    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            UseTree::Name(name) => self.leaf(before, name.ident.to_string(), None),
            UseTree::Rename(name) => {
                self.leaf(before, name.ident.to_string(), Some(name.rename.to_string()));
            }
            UseTree::Glob(_) => self.leaf(before, "*".into(), None),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
        }
    }

    fn leaf(&mut self, before: &[String], name: String, here: Option<String>) {
        let mut path = before.to_vec();
        let here = here.unwrap_or_else(|| match (&*name, before.last()) {
            ("self", Some(last)) => last.clone(),
            _ => name.clone(),
        });
        if name != "self" {
            path.push(name);
        }
        self.uses.push((path, here));
    }
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.import(&item.tree, &mut Vec::new());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Names of all files, to follow imports to where things are defined.
pub struct Names<'a> {
    code: &'a [Code],
    modules: BTreeMap<&'a [String], usize>,
    named: Vec<Named>,
}

impl<'a> Names<'a> {
    /// Names of these files.
    pub fn new(code: &'a [Code]) -> Self {
        let modules = code.iter().enumerate().map(|(index, code)| (&*code.module, index));
        let named = code.iter().map(|code| Named::of(&code.items));
        Self { code, modules: modules.collect(), named: named.collect() }
    }

    /// Paths that a file names, imports and others.
    pub fn named_in(&self, file: usize) -> impl Iterator<Item = &[String]> {
        let uses = self.named[file].uses.iter().map(|(path, _)| &**path);
        let paths = self.named[file].paths.iter().filter(|path| path.len() > 1);
        uses.chain(paths.map(|path| &**path))
    }

    /// The file that defines what a path names in a file; `None` for what is defined elsewhere, and
    /// for a single name that is not imported.
    pub fn find(&self, file: usize, path: &[String]) -> Option<usize> {
        self.follow(file, path, 0)
    }

    fn follow(&self, file: usize, path: &[String], depth: u32) -> Option<usize> {
        let own = &self.code[file].module;
        let mut at: Vec<String> = match &*path[0] {
            "crate" => vec![own[0].clone()],
            "self" => own.clone(),
            "super" => own[..own.len() - 1].to_vec(),
            name => {
                // A child, or what was imported under that name.
                let child = [own.as_slice(), &[name.to_owned()]].concat();
                if self.modules.contains_key(&*child) {
                    child
                } else if let Some((full, _)) = self.named[file]
                    .uses
                    .iter()
                    .find(|(full, here)| here == name && full.len() > 1)
                    .filter(|_| depth < 8)
                {
                    let whole = [full.as_slice(), &path[1..]].concat();
                    return self.follow(file, &whole, depth + 1);
                } else if self.code.iter().any(|code| code.module[0] == name) {
                    vec![name.to_owned()]
                } else {
                    return None;
                }
            }
        };
        for name in &path[1..] {
            if name == "super" {
                at.pop();
                continue;
            }
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&*child) {
                at = child;
                continue;
            }
            let &here = self.modules.get(&*at)?;
            // A name that the module hands on stands in another file.
            let handed = self.named[here].uses.iter().find(|(_, other)| other == name);
            return match handed {
                Some((full, _)) if depth < 8 => self.follow(here, full, depth + 1).or(Some(here)),
                _ => Some(here),
            };
        }
        self.modules.get(&*at).copied()
    }
}

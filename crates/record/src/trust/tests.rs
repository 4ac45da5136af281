use super::*;
use frostline_testing::{Requirement, skip};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

const NOBODY: u32 = 65534;

/// A folder with `bin/tool` in it, all of it ours.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        fs::create_dir(tree.path("bin")).unwrap();
        fs::write(tree.path("bin/tool"), "").unwrap();
        tree.mode("bin", 0o755).mode("bin/tool", 0o755)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mode(self, name: &str, mode: u32) -> Self {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    fn check(&self, name: &str) -> Result<PathBuf, TrustError> {
        Owners::ours().check(&self.path(name))
    }

    fn refuses(&self, name: &str, culprit: &str) {
        let error = self.check(name).expect_err("others can change it");
        let named = match &error {
            TrustError::Owner { path, owner } => {
                assert_eq!(*owner, NOBODY);
                path
            }
            TrustError::Writable { path } => path,
            other => panic!("{other}"),
        };
        assert_eq!(*named, self.path(culprit), "{error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }
}

fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        skip(Requirement::Root, "only root can give files to others");
    }
    is
}

#[test]
fn what_is_ours_in_a_folder_of_ours_is_trusted() {
    let tree = Tree::new();
    assert_eq!(tree.check("bin/tool").unwrap(), tree.path("bin/tool").canonicalize().unwrap());
    assert_eq!(tree.check("bin/../bin/./tool").unwrap(), tree.check("bin/tool").unwrap());
    assert!(Owners::ours().check_whole(&tree.path("bin")).is_ok());
}

#[test]
fn what_others_can_write_is_not_trusted() {
    for mode in [0o775, 0o757, 0o777] {
        Tree::new().mode("bin/tool", mode).refuses("bin/tool", "bin/tool");
        Tree::new().mode("bin", mode).refuses("bin/tool", "bin");
    }
}

#[test]
fn a_folder_like_tmp_is_passed_through_and_holds_no_program() {
    let tree = Tree::new().mode("bin", 0o1777);
    tree.refuses("bin/tool", "bin");
    fs::create_dir(tree.path("bin/own")).unwrap();
    fs::write(tree.path("bin/own/tool"), "").unwrap();
    let tree = tree.mode("bin/own", 0o755).mode("bin/own/tool", 0o755);
    assert!(tree.check("bin/own/tool").is_ok());
}

#[test]
fn what_belongs_to_another_user_is_not_trusted() {
    if !is_root() {
        return;
    }
    let tree = Tree::new();
    chown(tree.path("bin/tool"), Some(NOBODY), None).unwrap();
    tree.refuses("bin/tool", "bin/tool");
    chown(tree.path("bin/tool"), Some(0), None).unwrap();
    assert!(tree.check("bin/tool").is_ok());
    chown(tree.path("bin"), Some(NOBODY), None).unwrap();
    tree.refuses("bin/tool", "bin");
    chown(tree.path("bin"), Some(0), None).unwrap();
    chown(tree.path(""), Some(NOBODY), None).unwrap();
    tree.refuses("bin/tool", "");
}

#[test]
fn what_another_user_put_into_tmp_under_our_name_is_not_trusted() {
    if !is_root() {
        return;
    }
    let tree = Tree::new().mode("", 0o1777);
    chown(tree.path("bin"), Some(NOBODY), None).unwrap();
    tree.refuses("bin/tool", "bin");
    assert!(matches!(own_folder(&tree.path("bin")), Err(TrustError::Owner { .. })));
    assert!(matches!(own_folder(&tree.path("bin/more")), Err(TrustError::Owner { .. })));
    assert!(!tree.path("bin/more").exists(), "nothing is made in a folder of another user");
}

#[test]
fn links_are_followed_and_every_part_of_their_way_is_looked_at() {
    let tree = Tree::new();
    fs::create_dir(tree.path("open")).unwrap();
    symlink(tree.path("bin"), tree.path("absolute")).unwrap();
    symlink("../bin/tool", tree.path("open/relative")).unwrap();
    symlink("endless", tree.path("endless")).unwrap();
    let tree = tree.mode("open", 0o755);
    assert!(tree.check("absolute/tool").is_ok());
    assert!(tree.check("open/relative").is_ok());
    assert!(matches!(tree.check("endless"), Err(TrustError::Io { .. })));
    assert!(matches!(tree.check("missing"), Err(TrustError::Io { .. })));
    let tree = tree.mode("open", 0o777);
    tree.refuses("open/relative", "open");
    let tree = tree.mode("open", 0o755).mode("bin", 0o777);
    tree.refuses("open/relative", "bin");
    tree.refuses("absolute/tool", "bin");
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    if !is_root() {
        return;
    }
    let tree = Tree::new();
    symlink("tool", tree.path("bin/link")).unwrap();
    std::os::unix::fs::lchown(tree.path("bin/link"), Some(NOBODY), None).unwrap();
    tree.refuses("bin/link", "bin/link");
}

#[test]
fn a_whole_folder_is_trusted_only_with_all_that_is_in_it() {
    let tree = Tree::new();
    fs::create_dir(tree.path("bin/deep")).unwrap();
    fs::write(tree.path("bin/deep/file"), "").unwrap();
    let tree = tree.mode("bin/deep", 0o755).mode("bin/deep/file", 0o666);
    assert!(tree.check("bin").is_ok());
    let error = Owners::ours().check_whole(&tree.path("bin")).unwrap_err();
    assert!(matches!(error, TrustError::Writable { path } if path.ends_with("bin/deep/file")));
}

#[test]
fn a_folder_of_our_own_is_made_for_us_alone() {
    let tree = Tree::new();
    let made = own_folder(&tree.path("a/b")).unwrap();
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
    assert_eq!(own_folder(&made).unwrap(), made);
    let tree = tree.mode("bin", 0o777);
    assert!(matches!(own_folder(&tree.path("bin/x")), Err(TrustError::Writable { .. })));
}

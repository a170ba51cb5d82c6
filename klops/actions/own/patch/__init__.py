"""``klops.patch``: files of site-packages that are replaced or changed, and can be taken back."""

"""torch's linear algebra, transforms and layers in several forms: a part of the list in torch_examples.py."""
from __future__ import annotations

from typing import Final

SECTIONS: Final[dict[str, str]] = {
    "Products and linear algebra": """
        matmul: x @ y.T; torch.matmul(q, q.transpose(-1, -2)); x @ v[:5]
        mm: torch.mm(x, y.t())
        bmm: torch.bmm(q[0], q[1].transpose(1, 2))
        mv: torch.mv(x, v[:5])
        dot: torch.dot(v, w)
        addmm: torch.addmm(m.to(x.dtype), x, y.T); torch.addmm(m.to(x.dtype), x, y.T, beta=0.5, alpha=2)
        baddbmm: torch.baddbmm(q[0, :, :, :4] * 0, q[0], q[1].transpose(1, 2))
        outer: torch.outer(v, w)
        inner: torch.inner(v, w)
        tensordot: torch.tensordot(x, y.T, dims=1)
        einsum: torch.einsum("ij,kj->ik", x, y); torch.einsum("bhid,bhjd->bhij", q, q)
        kron: torch.kron(v, w)
        cross: torch.cross(v[:3], w[:3], dim=0)
        cdist: torch.cdist(x, y)
        vdot: torch.vdot(v, w)
        addbmm: torch.addbmm(m.to(x.dtype), q[0, :, :, :], q[1].transpose(1, 2))
        addr: torch.addr(x, v[:4], w[:5])
        dist: torch.dist(x, y)
        linalg.multi_dot: torch.linalg.multi_dot((x, y.T, x))
        linalg.vecdot: torch.linalg.vecdot(x, y)
        linalg.matrix_power: torch.linalg.matrix_power(m, 3)
        linalg.pinv: torch.linalg.pinv(m)
        linalg.slogdet: torch.linalg.slogdet(m); torch.logdet(m)
        linalg.solve_triangular: torch.linalg.solve_triangular(m.triu(), m[:, :2], upper=True)
        linalg.matrix_norm: torch.linalg.matrix_norm(m)
        cholesky_solve: torch.cholesky_solve(m[:, :2], torch.linalg.cholesky(m @ m.T))
        linalg.inv: torch.linalg.inv(m)
        linalg.det: torch.linalg.det(m); torch.det(m)
        linalg.solve: torch.linalg.solve(m, m[:, :2])
        linalg.cholesky: torch.linalg.cholesky(m @ m.T)
        linalg.svd: torch.linalg.svd(m)[1]
        linalg.qr: torch.linalg.qr(m)[1].abs()
        linalg.eigh: torch.linalg.eigh(m + m.T)[0]
    """,
    "torch.fft": """
        fft.fft: torch.fft.fft(x); torch.fft.fft(x, dim=0); torch.fft.fft(v, n=8, norm="ortho")
        fft.ifft: torch.fft.ifft(torch.fft.fft(x))
        fft.rfft: torch.fft.rfft(x)
        fft.irfft: torch.fft.irfft(torch.fft.rfft(v))
        fft.fft2: torch.fft.fft2(x)
        fft.ifft2: torch.fft.ifft2(torch.fft.fft2(x))
        fft.fftn: torch.fft.fftn(x)
        fft.fftshift: torch.fft.fftshift(v)
        fft.ifftshift: torch.fft.ifftshift(x, dim=1)
        stft: torch.stft(x.reshape(-1), 8, 2, window=x.reshape(-1)[:8], return_complex=True); \
            torch.stft(x, 4, 1, 2, pad_mode="constant", normalized=True, return_complex=True); \
            torch.stft(x.reshape(2, 10), 7, None, 6, v, False, return_complex=True); x.stft(9, return_complex=True)
    """,
    "torch.nn.functional": """
        relu: F.relu(x - 0.5); torch.relu(x - 0.5); F.relu(n - 2)
        relu6: F.relu6(x * 10)
        leaky_relu: F.leaky_relu(x - 0.5); F.leaky_relu(x - 0.5, 0.2)
        elu: F.elu(x - 0.5); F.elu(x - 0.5, alpha=0.5)
        selu: F.selu(x - 0.5)
        celu: F.celu(x - 0.5, 0.7)
        gelu: F.gelu(x - 0.5); F.gelu(x, approximate="tanh")
        silu: F.silu(x - 0.5)
        mish: F.mish(x - 0.5)
        softplus: F.softplus(x); F.softplus(x * 10, beta=2, threshold=5)
        softsign: F.softsign(x - 0.5)
        hardtanh: F.hardtanh(x * 3 - 1)
        hardsigmoid: F.hardsigmoid(x * 8 - 4)
        hardswish: F.hardswish(x * 8 - 4)
        logsigmoid: F.logsigmoid(x - 0.5)
        tanhshrink: F.tanhshrink(x)
        softshrink: F.softshrink(x - 0.5, 0.2)
        hardshrink: F.hardshrink(x - 0.5, 0.2)
        threshold: F.threshold(x, 0.5, 9.0)
        prelu: F.prelu(x - 0.5, v[:5])
        glu: F.glu(x[:, :4])
        softmax: F.softmax(x, dim=1); torch.softmax(x, 0); x.softmax(-1); F.softmax(x, dim=1, dtype=torch.float64)
        log_softmax: F.log_softmax(x, dim=1); x.log_softmax(0)
        softmin: F.softmin(x, dim=1)
        normalize: F.normalize(x); F.normalize(x, p=1, dim=0)
        layer_norm: F.layer_norm(x, (5,)); F.layer_norm(x, (5,), v[:5], w[:5]); F.layer_norm(q, (4, 5))
        rms_norm: F.rms_norm(x, (5,), v[:5])
        group_norm: F.group_norm(img, 2); F.group_norm(img, 2, v[:4], w[:4])
        batch_norm: F.batch_norm(img, v[:4], w[:4]); F.batch_norm(img, None, None, training=True)
        instance_norm: F.instance_norm(img)
        linear: F.linear(x, y); F.linear(x, y, v[:4])
        bilinear: F.bilinear(x, y, q[0, :2, :1].expand(2, 5, 5))
        embedding: F.embedding(i % 4, x)
        embedding_bag: F.embedding_bag(i.view(2, 3) % 4, x); F.embedding_bag(i.view(2, 3) % 4, x, mode="max"); \
            F.embedding_bag(i.view(2, 3) % 4, x, per_sample_weights=v.view(2, 3), mode="sum")
        one_hot: F.one_hot(i, 5)
        local_response_norm: F.local_response_norm(img.float(), 3)
        dropout: F.dropout(x, 0.5, training=False); F.dropout(x, 0.0)
        scaled_dot_product_attention: F.scaled_dot_product_attention(q, q, q); \
            F.scaled_dot_product_attention(q, q, q, is_causal=True); \
            F.scaled_dot_product_attention(q, q, q, scale=0.3)
        cosine_similarity: F.cosine_similarity(x, y)
        pairwise_distance: F.pairwise_distance(x, y)
        pad: F.pad(x, (1, 2)); F.pad(x, (1, 1, 2, 0), value=3.0); F.pad(img, (1, 1, 1, 1), mode="reflect"); \
            F.pad(img, (1, 1), mode="replicate") if img.ndim == 3 else x; F.pad(x, (-1, -1))
        interpolate: F.interpolate(img, scale_factor=2); F.interpolate(img, size=(3, 9)); \
            F.interpolate(img, scale_factor=2, mode="bilinear"); \
            F.interpolate(img, size=(4, 4), mode="bilinear", align_corners=True); \
            F.interpolate(img, size=(4, 9), mode="bilinear"); F.interpolate(img, scale_factor=1.5, mode="bicubic"); \
            F.interpolate(img, size=4, mode="area"); F.interpolate(img, scale_factor=0.4, mode="nearest-exact"); \
            F.interpolate(img[0], scale_factor=2, mode="linear")
        upsample: F.upsample(img, scale_factor=2); F.upsample_bilinear(img, scale_factor=2)
        affine_grid: F.affine_grid(x[:2, :3].reshape(1, 2, 3), (1, 1, 3, 4), align_corners=False)
        grid_sample: F.grid_sample(img, q[:, :, :3, :2] * 2 - 1, align_corners=False); \
            F.grid_sample(img, q[:, :, :3, :2] * 3 - 1, padding_mode="border", align_corners=True); \
            F.grid_sample(img, q[:, :, :3, :2] * 3 - 1.5, mode="nearest", align_corners=False); \
            F.grid_sample(img, q[:, :, :3, :2] * 9 - 5, padding_mode="reflection", align_corners=False); \
            F.grid_sample(img, q[:, :, :3, :2] * 9 - 5, padding_mode="reflection", align_corners=True)
        conv1d: F.conv1d(img[:, :, 0], ker[:, :, 0]); F.conv1d(img[:, :, 0], ker[:, :, 0], v[:2], stride=2, padding=1)
        conv3d: F.conv3d(q[:, None], ker[:, :1, None])
        conv_transpose1d: F.conv_transpose1d(img[:, :2, 0], ker[:, :, 0]); \
            F.conv_transpose1d(img[:, :2, 0], ker[:, :, 0], v[:4], stride=2, padding=1, output_padding=1)
        conv_transpose2d: F.conv_transpose2d(img[:, :2], ker); \
            F.conv_transpose2d(img[:, :2], ker, v[:4], stride=2, padding=1, output_padding=1); \
            F.conv_transpose2d(img, ker.transpose(0, 1), stride=3, dilation=2); \
            F.conv_transpose2d(img[:, :2], ker[:, :3], groups=2, padding=2)
        fold: F.fold(F.unfold(img, 3, stride=2, padding=1), (6, 6), 3, stride=2, padding=1)
        unfold: F.unfold(img, 3); F.unfold(img, (2, 3), dilation=2, padding=1, stride=2)
        conv2d: F.conv2d(img, ker); F.conv2d(img, ker, v[:2], stride=2, padding=1); \
            F.conv2d(img, ker, padding="same"); \
            F.conv2d(img, ker[:, :2], groups=2); F.conv2d(img, ker, dilation=2)
        max_pool2d: F.max_pool2d(img, 2); F.max_pool2d(img, 3, stride=2, padding=1); \
            F.max_pool2d(img, 4, 3, ceil_mode=True); F.max_pool2d(img, (2, 3), 1, (1, 0), (2, 1)); \
            F.max_pool2d(img, 3, 2, 1, return_indices=True)
        avg_pool2d: F.avg_pool2d(img, 2); F.avg_pool2d(img, 3, stride=1, padding=1); \
            F.avg_pool2d(img, 3, 2, 1, ceil_mode=True); F.avg_pool2d(img, 3, 2, 1, count_include_pad=False); \
            F.avg_pool2d(img, 2, divisor_override=3)
        max_pool1d: F.max_pool1d(img[0], 2)
        max_pool3d: F.max_pool3d(q[:, None], 2)
        lp_pool2d: F.lp_pool2d(img.float(), 2, 2)
        adaptive_avg_pool2d: F.adaptive_avg_pool2d(img, 1); F.adaptive_avg_pool2d(img, (3, 2)); \
            F.adaptive_avg_pool2d(img, (4, None))
        adaptive_avg_pool1d: F.adaptive_avg_pool1d(img[0], 4)
        adaptive_max_pool2d: F.adaptive_max_pool2d(img, 2); F.adaptive_max_pool2d(img, (5, 4))
        pixel_shuffle: F.pixel_shuffle(img, 2)
        pixel_unshuffle: F.pixel_unshuffle(img, 2)
        channel_shuffle: F.channel_shuffle(img, 2)
        cross_entropy: F.cross_entropy(x, i[:4]); F.cross_entropy(x, i[:4], weight=v[:5]); \
            F.cross_entropy(x, i[:4], reduction="none"); F.cross_entropy(x, i[:4], ignore_index=1); \
            F.cross_entropy(x, F.softmax(y, 1)); F.cross_entropy(x, i[:4], label_smoothing=0.1)
        nll_loss: F.nll_loss(F.log_softmax(x, 1), i[:4]); F.nll_loss(x, i[:4], v[:5], reduction="sum")
        mse_loss: F.mse_loss(x, y); F.mse_loss(x, y, reduction="sum"); F.mse_loss(x, y, reduction="none")
        l1_loss: F.l1_loss(x, y)
        smooth_l1_loss: F.smooth_l1_loss(x, y); F.smooth_l1_loss(x, y, beta=0.1)
        huber_loss: F.huber_loss(x, y, delta=0.2)
        binary_cross_entropy: F.binary_cross_entropy(x.sigmoid(), y)
        binary_cross_entropy_with_logits: F.binary_cross_entropy_with_logits(x, y); \
            F.binary_cross_entropy_with_logits(x, y, pos_weight=v[:5])
        margin_ranking_loss: F.margin_ranking_loss(x, y, x.sign(), margin=0.2)
        hinge_embedding_loss: F.hinge_embedding_loss(x, (x - 0.5).sign())
        soft_margin_loss: F.soft_margin_loss(x, (y - 0.5).sign())
        cosine_embedding_loss: F.cosine_embedding_loss(x, y, (x[:, 0] - 0.5).sign(), margin=0.3)
        triplet_margin_loss: F.triplet_margin_loss(x, y, x * y, swap=True)
        poisson_nll_loss: F.poisson_nll_loss(x, y); F.poisson_nll_loss(x, y, log_input=False)
        multilabel_soft_margin_loss: F.multilabel_soft_margin_loss(x, y)
        multi_margin_loss: F.multi_margin_loss(x, i[:4])
        gaussian_nll_loss: F.gaussian_nll_loss(x, y, y)
        kl_div: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean")
    """,
}
